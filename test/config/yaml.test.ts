import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { loadConfig } from "../../src/config/load-config.ts";
import { jobTypes } from "../../src/jobs/registry.ts";
import { fine, fineBut, load, makeFolder, problemsOf, refusal, refusalOf } from "./support.ts";

it("a folder is no configuration", async () => {
  const file = join(await makeFolder(), "folder");
  await mkdir(file);
  expect(await refusalOf(loadConfig({ jobTypes, file, env: {} }))).toMatchObject({
    code: "unreadable_configuration",
    message: `${file} is a folder`,
  });
});

it.each([
  ["too large", "x".repeat(128 * 1024 + 1), "is larger than 128 KiB"],
  ["Latin-1", Buffer.from("a: \u00fc\n", "latin1"), "is not UTF-8 text"],
  ["UTF-16", Buffer.from(`\ufeff${fine}`, "utf16le"), "is not UTF-8 text"],
])("a file that is %s is refused", async (_what, content, message) => {
  expect((await refusal(content)).problems).toEqual([
    { path: "config.yaml", message, hint: "pass the right file with --config" },
  ]);
});

it.each([
  ["# only a comment\n", "is empty"],
  ["- a list\n", "must be a mapping of keys to values"],
  ["hello\n", "must be a mapping of keys to values"],
])("%j is no configuration", async (text, message) => {
  const hint = "see config.example.yaml, or create one with `person-etl init`";
  expect(await problemsOf(text)).toEqual([`1 config.yaml: ${message} (${hint})`]);
});

/** A list of nine aliases of the previous level. */
const level = (name: string, below: string) =>
  `${name}: &${name} [${Array(9).fill(`*${below}`).join(", ")}]\n`;
const bomb = `a: &a [x]\n${level("b", "a")}${level("c", "b")}${level("d", "c")}${level("e", "d")}`;
const ALIAS =
  "has an alias (`*name` or `<<`) that can't be resolved (set `&name` before it and outside of it, on a mapping for `<<`; quote text that starts with *)";

it.each([
  [
    fineBut("  url: embedded", "\turl: embedded"),
    "5 config.yaml: has a tab in its indentation (indent with spaces; YAML allows no tabs)",
  ],
  [
    fineBut("key: id", "key: 'id"),
    "9 config.yaml: has a quote that is not closed (close it on the same line)",
  ],
  [
    fineBut("key: id", "key: @id"),
    "9 config.yaml: has text that starts with a character reserved by YAML (quote the text)",
  ],
  [
    fineBut("pid_from: resolve_customers }", "pid_from: ${JOB} }"),
    '14 config.yaml: is not valid YAML here (inside { } and [ ] quote references: "${NAME}")',
  ],
  [
    fineBut("emails: [email] }", "emails: [email }"),
    "10 config.yaml: has a [ that is not closed (close it with ] on the same line)",
  ],
  [
    fineBut("    key: id", "   key: id"),
    "9 config.yaml: is not valid YAML here (align it with the lines around it, and close quotes and brackets before it)",
  ],
  [
    fineBut("key: id", "key: !odd id"),
    "9 config.yaml: has an unknown tag (`!…`) (remove the tag; quote text)",
  ],
  [
    `${fine}  __proto__: { type: enrich, input: customers }\n`,
    "15 config.yaml: has a key `__proto__` (choose another name)",
  ],
  [`${fine}  loop: &loop { type: *loop }\n`, `1 config.yaml: ${ALIAS}`],
  [`${fine}  loop: *nowhere\n`, `15 config.yaml: ${ALIAS}`],
  [`${fine}  merged: { <<: 3 }\n`, `1 config.yaml: ${ALIAS}`],
  [bomb, `1 config.yaml: ${ALIAS}`],
])("invalid YAML is reported with its line: %#", async (text, problem) => {
  expect(await problemsOf(text)).toEqual([problem]);
});

it("a duplicate key or a second document doesn't hide the other problems", async () => {
  const text = fineBut("  url: embedded", "  url: embedded\n  url: embedded\n  shema: people");
  expect(await problemsOf(`${text}---\nmore: 1\n`)).toEqual([
    "6 url: is defined twice (also on line 5) (remove or rename one of them)",
    "7 warehouse.shema: is not a setting of warehouse (did you mean schema?)",
    "17 config.yaml: contains several YAML documents (keep one document: remove the line `---` and the other document)",
  ]);
});

it("keys that are no names are refused", async () => {
  const name =
    "is not a valid name (use lowercase letters, digits and _, starting with a letter; at most 63 characters)";
  expect(await problemsOf(`${fine}  17: { type: resolve }\n  ? [a, b]\n  : { type: resolve }\n`)).toEqual([
    `11 jobs.?: ${name}`,
    `15 jobs.?: ${name}`,
  ]);
});

it("a text with errors is never quoted", async () => {
  const error = await refusal("service:\n  api_key: 'sk-live-1\n  other: \"sk-live-2\n sk-live-3\n");
  expect(JSON.stringify([error.message, error.problems, error.cause])).not.toContain("sk-live");
});

it("anchors, aliases and merge keys may be used", async () => {
  const config = await load(`${fine}  again:
    <<: &defaults { type: enrich, input: customers, refresh_after: 90d, max_records_per_run: 10 }
    max_records_per_run: 20
  third:
    <<: *defaults
`);
  expect(config.jobs[3]).toMatchObject({ refreshAfterMs: 7_776_000_000, maxRecordsPerRun: 20 });
  expect(config.jobs[4]).toMatchObject({ type: "enrich", maxRecordsPerRun: 10 });
});

it("a file may begin with a byte order mark and have Windows line ends", async () => {
  expect((await load(`\uFEFF${fine.replaceAll("\n", "\r\n")}`)).jobs).toHaveLength(3);
});
