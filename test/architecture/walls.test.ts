import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findCycles, listSources, readImports } from "./import-graph.ts";
import { findBreach, findMisnaming } from "./walls.ts";

const root = join(import.meta.dirname, "../..");
const files = ["src", "packages/sandbox/src", "migrations"].flatMap((folder) => listSources(root, folder));
const imports = readImports(root, files);

/** Parses `ab bc` as the imports a → b and b → c. */
const edges = (text: string) => text.split(" ").map((e) => ({ from: e.charAt(0), to: e.charAt(1) }));

describe("the project", () => {
  test("is found", () => {
    expect(files).toContain("src/schemas/flatten.ts");
    expect(imports).toContainEqual({ from: "src/schemas/flatten.ts", to: "src/schemas/convert.ts" });
    expect(imports.length).toBeGreaterThan(files.length);
  });

  test("imports only files that exist, by their whole name", () => {
    expect(imports.filter(({ to }) => !files.includes(to) && to !== "package.json")).toEqual([]);
  });

  test("has no import through a wall", () => {
    expect(imports.flatMap((edge) => findBreach(edge) ?? [])).toEqual([]);
  });

  test("has no cycle", () => {
    expect(findCycles(imports)).toEqual([]);
  });

  test("has every file in a layer, under a name that describes its purpose", () => {
    expect(files.flatMap((file) => findMisnaming(file) ?? [])).toEqual([]);
  });
});

describe("each wall", () => {
  test.each([
    ["src/errors.ts", "src/log.ts", "src/config/load-config.ts"],
    ["src/schemas/person.ts", "src/schemas/field.ts", "src/load/db/db.ts"],
    ["src/schemas/convert.ts", "src/schemas/convert.ts", "src/extract/answer-body.ts"],
    ["src/schemas/convert.ts", "src/errors.ts", "src/jobs/run.ts"],
    ["src/config/load-config.ts", "src/schemas/registry.ts", "src/load/db/db.ts"],
    ["src/extract/queue.ts", "src/schemas/answer.ts", "src/load/db/db.ts"],
    ["src/extract/retry.ts", "src/clock.ts", "src/jobs/run.ts"],
    ["src/extract/http-client.ts", "src/log.ts", "src/config/load-config.ts"],
    ["src/load/db/db.ts", "src/schemas/convert.ts", "src/extract/queue.ts"],
    ["src/load/open.ts", "src/load/db/db.ts", "src/load/embedded/open.ts"],
    ["src/load/db/copy.ts", "src/schemas/table.ts", "src/publish/destination.ts"],
    ["src/load/db/session.ts", "src/log.ts", "src/load/embedded/server.ts"],
    ["src/load/db/migrate.ts", "migrations/0001-tables.ts", "src/jobs/run.ts"],
    ["src/load/embedded/cluster.ts", "src/errors.ts", "src/load/db/session.ts"],
    ["migrations/0001-tables.ts", "src/load/db/ddl.ts", "src/load/db/session.ts"],
    ["migrations/0001-tables.ts", "src/schemas/registry.ts", "src/load/db/db.ts"],
    ["src/publish/destination.ts", "src/schemas/table.ts", "src/load/db/db.ts"],
    ["src/spool/spool.ts", "src/errors.ts", "src/extract/queue.ts"],
    ["src/jobs/run.ts", "src/spool/spool.ts", "packages/sandbox/src/world.ts"],
    ["src/jobs/run.ts", "src/extract/queue.ts", "src/load/embedded/cluster.ts"],
    ["src/jobs/run.ts", "src/publish/destination.ts", "src/cli/command.ts"],
    ["src/cli/app.ts", "src/load/open.ts", "src/schemas/flatten.ts"],
    ["src/cli/app.ts", "src/extract/http-client.ts", "src/extract/queue.ts"],
    ["src/cli/commands/run.ts", "packages/sandbox/src/sample-inputs.ts", "src/main.ts"],
    ["packages/sandbox/src/world.ts", "src/schemas/person.ts", "src/extract/limits.ts"],
    ["packages/sandbox/src/main.ts", "packages/sandbox/src/world.ts", "src/errors.ts"],
    ["src/main.ts", "src/cli/program.ts", "src/jobs/run.ts"],
  ])("of %s lets %s through and stops %s", (from, allowed, forbidden) => {
    expect(findBreach({ from, to: allowed })).toBeNull();
    expect(findBreach({ from, to: forbidden })).toContain(`${from} (`);
  });

  test("stops files outside of layers", () => {
    expect(findBreach({ from: "src/jobs/run.ts", to: "src/tools.ts" })).toContain("is in no layer");
    expect(findBreach({ from: "src/tools.ts", to: "src/errors.ts" })).toContain("is in no layer");
    expect(findMisnaming("src/tools.ts")).toBe("src/tools.ts is in no layer");
  });

  test.each([
    "src/jobs/utils.ts",
    "src/jobs/helper.ts",
    "src/common/run.ts",
    "src/schemas/types.ts",
    "src/extract/index.ts",
    "src/load/db/runStatements.ts",
    "src/load/db/run_statements.ts",
  ])("of names stops %s", (file) => {
    expect(findMisnaming(file)).toContain(file);
  });

  test("of cycles stops long ones and those of a single file, and names the way", () => {
    expect(findCycles(edges("ab ac bd cd de"))).toEqual([]);
    expect(findCycles(edges("ab bc cd db ef fe"))).toEqual([
      ["b", "c", "d", "b"],
      ["e", "f", "e"],
    ]);
    expect(findCycles(edges("ab bb"))).toEqual([["b", "b"]]);
  });
});

describe("imports", () => {
  let folder = "";
  const sources: Readonly<Record<string, string>> = {
    "src/jobs/run.ts": [
      'import { readFile } from "node:fs/promises";',
      'import { one } from "../load/one.ts";',
      'import type { Two } from "../load/two.ts";',
      "import {",
      "  three,",
      "} from '../load/three.ts';",
      'export { four } from "./four.ts";',
      'export * from "./five.ts";',
      'import "./six.ts";',
      'const seven = await import("./seven.ts");',
      'const eight: import("./eight.ts").Eight = one;',
    ].join("\n"),
    "src/jobs/notes.md": 'import { nine } from "./nine.ts";',
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "walls-"));
    for (const [path, text] of Object.entries(sources)) {
      await mkdir(join(folder, dirname(path)), { recursive: true });
      await writeFile(join(folder, path), text);
    }
  });

  afterAll(() => rm(folder, { recursive: true }));

  test("are found in every form that the language has", () => {
    expect(listSources(folder, "src")).toEqual(["src/jobs/run.ts"]);
    expect(readImports(folder, listSources(folder, "src")).map(({ to }) => to)).toEqual([
      "src/load/one.ts",
      "src/load/two.ts",
      "src/load/three.ts",
      "src/jobs/four.ts",
      "src/jobs/five.ts",
      "src/jobs/six.ts",
      "src/jobs/seven.ts",
      "src/jobs/eight.ts",
    ]);
  });
});
