import { readdir, readFile } from "node:fs/promises";
import { expect, test } from "vitest";

test("the symptoms of the runbook are spelled as the program prints them", async () => {
  const runbook = await readFile("docs/runbook.md", "utf8");
  const files = (await readdir("src", { recursive: true })).filter((name) => name.endsWith(".ts"));
  const program = (await Promise.all(files.map((name) => readFile(`src/${name}`, "utf8")))).join("\n");
  const quoted = [...runbook.matchAll(/^(?:## |\| `).*$/gmu)].flatMap(([line]) => {
    const symptom = line.startsWith("#") ? line : (line.split("|")[1] ?? "");
    return [...symptom.matchAll(/`([^`]+)`/gu)].map(([, text = ""]) => text);
  });
  // `limited (budget_day)` is printed from two texts, `…` stands for a name.
  const parts = quoted.flatMap((text) => text.split(/ ?… ?| ?[()]/u)).filter((part) => part !== "");
  expect(parts.length).toBeGreaterThan(20);
  expect(parts.filter((part) => !program.includes(part))).toEqual([]);
});
