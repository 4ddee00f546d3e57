import { readdir, readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { referencePages } from "../../scripts/reference.ts";
import { adviceByCode } from "../../src/jobs/advice.ts";

describe("docs/reference", () => {
  it.each(Object.entries(referencePages()))(
    "%s is what `npm run docs` makes of the program",
    async (file, text) => {
      expect((await readFile(file, "utf8")) === text, "run `npm run docs` and commit what it writes").toBe(
        true,
      );
    },
  );

  it("says what to do about every code that the program ends with", async () => {
    const codes = new Set<string>();
    for (const file of await readdir("src", { recursive: true })) {
      if (!file.endsWith(".ts") || file.startsWith("sandbox/")) continue;
      const text = await readFile(`src/${file}`, "utf8");
      const ended =
        /(?:(?:StopJobError|StopRunError|FixConfigurationError|LimitReachedError|failed|skipped|locked)\(|failure\(\s*\d,)\s*"([a-z_]+)"/g;
      for (const [, code = ""] of text.matchAll(ended)) codes.add(code);
    }
    expect(codes.size).toBeGreaterThan(40);
    expect([...codes].filter((code) => !Object.hasOwn(adviceByCode, code))).toEqual([]);
  });
});
