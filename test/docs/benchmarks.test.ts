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

/** Round of person-etl alone, at this speed. */
const roundAt = (speed: number) => ({
  rows: 20_000,
  first: [
    {
      what: "person-etl",
      people: 100,
      seconds: 1,
      people_per_second: speed,
      client_cpu_per_1000: 0.2,
      server_cpu_per_1000: 0.1,
      peak_node_mb: 150,
      peak_tree_mb: 160,
    },
  ],
  second: [],
  tables: { person: 100, person_email: 250 },
});

test("a table of benchmarks has the median of all rounds, and the slowest and the fastest", () => {
  const page = fillPage("<!-- figures: written by npm run bench:peers -->\n<!-- end of figures -->\n", {
    ...figures,
    rounds: [roundAt(3000), roundAt(1000), roundAt(2000)],
  });
  expect(page).toContain("**20,000 input rows, 100 people, 350 rows stored; medians of 3 rounds.**");
  expect(page).toContain("| person-etl | 2,000 (1,000 to 3,000) |  | 0.200 + 0.100 | 160 |");
});
