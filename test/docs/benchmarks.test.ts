import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { FIGURES, type PeerFigures } from "../../bench/peers/figures-file.ts";
import { fillPage, plotOf } from "../../bench/peers/write-page.ts";

const inDocs = (name: string) => readFile(new URL(`../../docs/${name}`, import.meta.url), "utf8");
// The file has this form because the benchmark wrote it.
const figures = JSON.parse(await readFile(FIGURES, "utf8")) as PeerFigures;

test("the page of benchmarks and its plot show the committed figures", async () => {
  const page = await inDocs("reference/benchmarks.md");
  expect(fillPage(page, figures)).toBe(page);
  expect(await inDocs("images/benchmarks.svg")).toBe(plotOf(figures));
});
