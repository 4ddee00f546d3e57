import { jobTypes } from "../../src/jobs/registry.ts";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadConfig } from "../../src/config/load-config.ts";
import { fine, fineBut, makeFolder, problemsOf, refusal, refusalOf } from "./support.ts";

describe("a file that can't be read", () => {
  it("is missing: the message has the path and how to create one", async () => {
    const file = join(await makeFolder(), "nowhere.yaml");
    const error = await refusalOf(loadConfig({ jobTypes, file, env: {} }));
    expect(error.code).toBe("no_configuration");
    expect(error.message).toBe(
      `no configuration at ${file}; create one with \`person-etl init\`, or pass --config`,
    );
  });

  it("is a folder", async () => {
    const file = join(await makeFolder(), "folder");
    await mkdir(file);
    const error = await refusalOf(loadConfig({ jobTypes, file, env: {} }));
    expect(error.code).toBe("unreadable_configuration");
    expect(error.message).toBe(`${file} is a folder`);
  });

  it("is another file, named by mistake", async () => {
    expect((await refusal("x".repeat(128 * 1024 + 1))).problems).toEqual([
      {
        path: "config.yaml",
        message: "is larger than 128 KiB, the maximum size of a configuration",
        hint: "pass the right file with --config",
      },
    ]);
  });

  it("is not UTF-8: the line of the first bad byte is reported", async () => {
    const bytes = Buffer.concat([Buffer.from("a: ü\nb: "), Buffer.from([0xfc]), Buffer.from("\nc: 1\n")]);
    expect((await refusal(bytes)).problems).toEqual([
      { path: "config.yaml", message: "is not UTF-8 text", line: 2, hint: "save it as UTF-8" },
    ]);
  });

  it("is UTF-16", async () => {
    const bytes = Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(fine, "utf16le")]);
    expect((await refusal(bytes)).problems[0]?.hint).toBe("it is UTF-16: save it as UTF-8");
  });
});

describe("a text that isn't a configuration", () => {
  it.each([
    ["", "1 config.yaml: is empty (see config.example.yaml, or create one with `person-etl init`)"],
    [
      "# only a comment\n",
      "1 config.yaml: is empty (see config.example.yaml, or create one with `person-etl init`)",
    ],
    [
      "- a list\n",
      "1 config.yaml: must be a mapping of keys to values (see config.example.yaml, or create one with `person-etl init`)",
    ],
    [
      "hello\n",
      "1 config.yaml: must be a mapping of keys to values (see config.example.yaml, or create one with `person-etl init`)",
    ],
  ])("%j", async (text, problem) => {
    expect(await problemsOf(text)).toEqual([problem]);
  });
});

describe("invalid YAML is reported with its line", () => {
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
      fineBut("    key: id", "   key: id"),
      "9 config.yaml: is indented in a way that YAML can't read (align it with the lines around it)",
    ],
    [`a: ${"[".repeat(3000)}`, "1 config.yaml: is nested too deeply (reduce the nesting)"],
  ])("%#", async (text, problem) => {
    expect(await problemsOf(text)).toContain(problem);
  });

  it("a duplicate key or a second document doesn't hide the other problems", async () => {
    const text = fineBut("  url: embedded", "  url: embedded\n  url: embedded\n  shema: people");
    expect(await problemsOf(`${text}---\nmore: 1\n`)).toEqual([
      "5 warehouse.url: is set again in line 6 (remove or rename one of them)",
      "7 warehouse.shema: is not a setting of warehouse (did you mean schema?)",
      "17 config.yaml: contains several YAML documents (keep one document: remove the line `---` and the other document)",
    ]);
  });

  it("never quotes the file", async () => {
    const error = await refusal("service:\n  api_key: 'sk-live-1\n  other: \"sk-live-2\n sk-live-3\n");
    expect(JSON.stringify([error.message, error.problems, error.cause])).not.toContain("sk-live");
  });
});

/** A list of nine aliases of the previous level. */
const level = (name: string, below: string) =>
  `${name}: &${name} [${Array(9).fill(`*${below}`).join(", ")}]\n`;

describe("values that no setting can have", () => {
  it.each([
    [fineBut("key: id", "key:"), "9 inputs.customers.key: is empty (give it a value, or remove the line)"],
    [fineBut("key: id", "key: ~"), "9 inputs.customers.key: is empty (give it a value, or remove the line)"],
    [
      `${fine}  17: { type: resolve }\n`,
      "15 jobs.?: is not a valid key (keys are text; quote numbers and true/false)",
    ],
    [
      `${fine}  ? [a, b]\n  : { type: resolve }\n`,
      "15 jobs.?: is not a valid key (keys are text; quote numbers and true/false)",
    ],
    [
      `${fine}  __proto__: { type: resolve }\n`,
      "15 jobs.?: is not a valid key (keys are text; quote numbers and true/false)",
    ],
    [
      `${fine}  loop: &loop { type: *loop }\n`,
      "15 jobs.loop.type: is an alias of a value that contains it (remove the alias)",
    ],
    [
      `${fine}  loop: *nowhere\n`,
      "15 jobs.loop: is an alias of an anchor that isn't set before it (set &anchor first; quote a text that starts with *)",
    ],
    [`${fine}  merged: { <<: 3 }\n`, "15 jobs.merged.?: must refer to mappings (write `<<: *anchor`)"],
    [
      fineBut("key: id", "key: !!binary aGVsbG8="),
      "9 inputs.customers.key: has an unsupported type (write text, a number, true or false)",
    ],
    [
      fineBut("key: id", "key: !odd id"),
      "9 config.yaml: has an unknown tag (`!…`) (remove the tag; quote text)",
    ],
  ])("%#", async (text, problem) => {
    expect(await problemsOf(text)).toContain(problem);
  });

  it("aliases of aliases don't grow exponentially", async () => {
    const names = ["a", "b", "c", "d", "e", "f", "g"];
    const bomb = names.map((name, i) => (i === 0 ? "a: &a [x]\n" : level(name, names[i - 1] ?? ""))).join("");
    expect(await problemsOf(bomb)).toContain(
      "1 config.yaml: is too large: its aliases multiply its content (use fewer aliases)",
    );
  });
});
