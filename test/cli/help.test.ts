import type { Command } from "commander";
import { access, readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { makeFolder } from "./support/cli.ts";
import { runHere } from "./support/in-process.ts";
import { createProgram, pathOf } from "../../src/cli/command-tree.ts";
import { helpByCommand } from "../../src/cli/examples.ts";

/** Commands that can be run, by their names. */
function runnable(command: Command): readonly string[] {
  return command.commands.length > 0 ? command.commands.flatMap(runnable) : [pathOf(command).join(" ")];
}

test("every command's help has an example, and a page that exists", async () => {
  const names = runnable(createProgram(async () => {}));
  expect(Object.keys(helpByCommand).toSorted()).toEqual(names.toSorted());
  for (const [name, { examples, page }] of Object.entries(helpByCommand)) {
    expect(Object.keys(examples).every((line) => line === name || line.startsWith(`${name} `))).toBe(true);
    await access(`docs/${page}`);
  }
});

test("the JSON Schema of documents describes every command", async () => {
  const text = await readFile("docs/reference/commands.schema.json", "utf8");
  const { $defs }: { readonly $defs: object } = JSON.parse(text);
  const names = runnable(createProgram(async () => {})).map((name) => name.replace(" ", "_"));
  expect(names.filter((name) => !Object.hasOwn($defs, name))).toEqual([]);
});

test.for(Object.values(helpByCommand).flatMap(({ examples }) => Object.keys(examples)))(
  "the example %s is a valid command line",
  async (example) => {
    const [line = ""] = example.split(" > ");
    const words = [...line.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/gu)].map(([, a, b, c]) => a ?? b ?? c ?? "");
    let ran = "";
    const program = createProgram(async (command) => {
      ran = pathOf(command).join(" ");
    });
    await program.parseAsync(words, { from: "user" });
    expect(line.startsWith(ran) && ran !== "").toBe(true);
  },
);

test("the help of a command ends with examples to copy and the path of its page", async () => {
  const { code, stdout } = await runHere(["rejects", "list", "--help"], await makeFolder());
  expect(code).toBe(0);
  expect(stdout).toMatch(
    /\nExamples:\n  # Lists more rejects of one job\n  bin\/person-etl rejects list --job enrich_customers --limit 100\n\nDocumentation: \S*docs\/rejects\.md\n$/u,
  );
});
