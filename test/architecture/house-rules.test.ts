import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import {
  environmentReaders,
  findLines,
  MACHINE_PATH,
  type Place,
  READS_ENVIRONMENT,
  REPLACED_WORDS,
  SILENCES_CHECKS,
  textsOf,
} from "./house-rules.ts";
import { listSources } from "./import-graph.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");

/** Tracked files, and new ones that aren't ignored. */
async function listCommitted(): Promise<readonly string[]> {
  const { stdout } = await run("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    cwd: root,
    maxBuffer: 64 * 1024 * 1024,
  });
  return stdout.split("\0").filter((file) => file !== "");
}

/** Lines of the files that match a pattern; files removed in the meantime have none. */
async function search(files: readonly string[], pattern: RegExp): Promise<readonly Place[]> {
  const found: Place[] = [];
  for (const file of files) {
    const content = await readFile(join(root, file), "utf8").catch(() => "");
    found.push(...findLines(file, content, pattern));
  }
  return found;
}

/** Codes of the linter's findings in one file, with the project's configuration. */
async function lint(source: string): Promise<readonly string[]> {
  const folder = await mkdtemp(join(tmpdir(), "lint-"));
  await writeFile(join(folder, "fixture.ts"), source);
  const oxlint = join(root, "node_modules/oxlint/bin/oxlint");
  const args = [oxlint, "--config", join(root, ".oxlintrc.json"), "--format", "json", folder];
  const { stdout } = await run(process.execPath, args).catch((error: { stdout: string }) => error);
  await rm(folder, { recursive: true });
  const { diagnostics }: { diagnostics: readonly { code: string }[] } = JSON.parse(stdout);
  return diagnostics.map((diagnostic) => diagnostic.code);
}

/** Split, so that this file passes its own search. */
const ignoreComment = ["// @ts", "ignore"].join("-");

test("every lock needs rights: advisory locks, which any role can take, are taken in the embedded server's own database alone", async () => {
  const places = await search(listSources(root, "src"), /pg_(?:try_)?advisory/u);
  expect(new Set(places.map(({ file }) => file))).toEqual(new Set(["src/load/embedded/open.ts"]));
});

describe("the environment", () => {
  test("is read only in src/config and where a comment gives the reason", async () => {
    const files = listSources(root, "src").filter(
      (file) => !file.startsWith("src/config/") && !(file in environmentReaders),
    );
    expect(files).toContain("src/schemas/flatten.ts");
    expect(await search(files, READS_ENVIRONMENT)).toEqual([]);
  });

  test.each([
    'const key = process.env["KEY"];',
    "const { KEY } = process.env;",
    "spawn(file, { env: process . env })",
    'import { env } from "node:process";',
  ])("is seen in %s", (line) => {
    expect(findLines("src/jobs/run.ts", `const a = 1;\n${line}`, READS_ENVIRONMENT)).toEqual([
      { file: "src/jobs/run.ts", line: 2, text: line },
    ]);
  });

  test.each(["const environment = 1;", "process.envelope", "readEnvelope(bytes)"])(
    "is not seen in %s",
    (line) => {
      expect(findLines("src/jobs/run.ts", line, READS_ENVIRONMENT)).toEqual([]);
    },
  );
});

describe("a path of one machine", () => {
  test("occurs in no committed file", async () => {
    const files = await listCommitted();
    expect(files).toContain("package.json");
    expect(await search(files, MACHINE_PATH)).toEqual([]);
  });

  test.each([
    ["see /", "work/main"],
    ['"/', 'root/.cache"'],
    ["(/", "home/ana/project)"],
    ["/", "Users/ana/project"],
    ["C:", "\\Users\\ana"],
  ])("is seen in %s%s", (start, end) => {
    expect(findLines("a.md", `${start}${end}`, MACHINE_PATH)).toHaveLength(1);
  });

  test.each([
    "below `/root`, for example",
    "https://example.com/home/ana",
    "src/work/table.ts",
    "/var/lib/postgresql",
  ])("is not seen in %s", (line) => {
    expect(findLines("a.md", line, MACHINE_PATH)).toEqual([]);
  });
});

describe("the type checker and the linter", () => {
  test("are never silenced", async () => {
    const folders = ["src", "packages", "migrations", "bench", "test"];
    const files = folders.flatMap((folder) => listSources(root, folder));
    expect(await search(files, SILENCES_CHECKS)).toEqual([]);
  });

  test.each([
    ["// @ts-", "ignore"],
    ["// @ts-", "expect-error: no types"],
    ["// oxlint-", "disable-next-line no-console"],
    ["/* eslint-", "disable */"],
  ])("silencing is seen in %s%s", (start, end) => {
    expect(findLines("src/a.ts", `${start}${end}`, SILENCES_CHECKS)).toHaveLength(1);
  });
});

describe("the linter's configuration", () => {
  test.each([
    ["export const a: any = 1;", "typescript(no-explicit-any)"],
    ["export const a = [1][0]!;", "typescript(no-non-null-assertion)"],
    [`${ignoreComment}\nexport const a: string = "";`, "typescript(ban-ts-comment)"],
    ['console.log("hello");', "eslint(no-console)"],
    ["export const a = (b: unknown) => b == 1;", "eslint(eqeqeq)"],
    ['import { test } from "vitest";\ntest.only("a", () => {});', "vitest(no-focused-tests)"],
    ['import { test } from "vitest";\ntest.skip("a", () => {});', "vitest(no-disabled-tests)"],
  ])("refuses %j", async (source, code) => {
    expect(await lint(source)).toContain(code);
  });

  test("takes what follows the rules", async () => {
    expect(await lint("export const a = (b: unknown) => b === 1;\n")).toEqual([]);
  });
});

describe("the compiler's configuration", () => {
  test("is as strict as the project promises", async () => {
    const { compilerOptions }: { compilerOptions: object } = JSON.parse(
      await readFile(join(root, "tsconfig.json"), "utf8"),
    );
    expect(compilerOptions).toMatchObject({
      strict: true,
      noUncheckedIndexedAccess: true,
      exactOptionalPropertyTypes: true,
      verbatimModuleSyntax: true,
      // No enum, no namespace, no parameter properties.
      erasableSyntaxOnly: true,
    });
  });
});

describe("the documentation", () => {
  test("names only tests that exist", async () => {
    const committed = await listCommitted();
    const documents = committed.filter((file) => file.endsWith(".md"));
    expect(documents).toContain("ARCHITECTURE.md");
    const named = await Promise.all(
      documents.map(async (file) => {
        const content = await readFile(join(root, file), "utf8");
        return [...content.matchAll(/\btest\/[\w./-]+\.ts\b/gu)].map((match) => match[0]);
      }),
    );
    expect(named.flat().length).toBeGreaterThan(10);
    expect(named.flat().filter((test) => !committed.includes(test))).toEqual([]);
  });
});

describe("texts for users", () => {
  test("use the words of the glossary", async () => {
    const files = ["src", "packages/sandbox/src"]
      .flatMap((folder) => listSources(root, folder))
      .filter((file) => !file.includes("/population/"));
    const texts = (
      await Promise.all(files.map(async (file) => textsOf(file, await readFile(join(root, file), "utf8"))))
    ).flat();
    expect(texts.length).toBeGreaterThan(2000);
    const described = (await listCommitted()).filter((file) =>
      /^(?:dbt|dashboards)\/.*\.(?:ya?ml|json)$|^config\.example\.yaml$/u.test(file),
    );
    const lines = await search(
      described,
      /(?:description|label|title|verbose_name|slice_name|summary|subtitle)"?:|#/u,
    );
    // Names of columns and states are in backticks.
    const wrong = [...texts, ...lines].filter(({ text }) =>
      REPLACED_WORDS.test(text.replaceAll(/`[^`]*`/gu, "")),
    );
    expect(wrong).toEqual([]);
  });

  test.each([
    ["const a = `two answers of ${job}`;", ["two answers of …"]],
    ['fail("the plan",\n  "no more");', []],
    ['const state = "answered";', []],
    ["sql`SELECT answered FROM night`;", []],
  ])("a replaced word is seen in %j: %j", (source, texts) => {
    const found = textsOf("src/a.ts", source).filter(({ text }) => REPLACED_WORDS.test(text));
    expect(found.map(({ text }) => text)).toEqual(texts);
  });
});
