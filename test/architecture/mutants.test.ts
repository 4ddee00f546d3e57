import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { mutants } from "../mutants/mutants.ts";

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), "utf8");

test("each line that a mutant changes occurs exactly once in its file", () => {
  const stale = mutants.filter(({ file, from }) => read(file).split(from).length !== 2);
  expect(stale.map(({ breaks }) => breaks)).toEqual([]);
});
