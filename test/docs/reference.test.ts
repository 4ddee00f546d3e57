import { readdir, readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { referencePages } from "../../scripts/reference.ts";
import { adviceByCode } from "../../src/advice.ts";

describe("docs/reference", () => {
  it.each(Object.entries(referencePages()))(
    "%s is what `npm run docs` makes of the program",
    async (file, text) => {
      expect((await readFile(file, "utf8")) === text, "run `npm run docs` and commit what it writes").toBe(
        true,
      );
    },
  );

  it("explains every code that the program ends with, and no other", async () => {
    const codes = new Set<string>();
    let sources = "";
    for (const file of await readdir("src", { recursive: true })) {
      if (!file.endsWith(".ts") || file === "advice.ts") continue;
      const text = await readFile(`src/${file}`, "utf8");
      sources += text;
      const ended = /(?:\b(?:\w+(?:Error|Problem)|failed|skipped|locked)\(|failure\(\s*\d,)\s*"([a-z_]+)"/g;
      for (const [, code = ""] of text.matchAll(ended)) codes.add(code);
    }
    expect(codes.size).toBeGreaterThan(40);
    expect([...codes].filter((code) => !Object.hasOwn(adviceByCode, code))).toEqual([]);
    expect(Object.keys(adviceByCode).filter((code) => !sources.includes(`"${code}"`))).toEqual([]);
  });
});
