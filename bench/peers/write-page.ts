import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type Figures, median, round } from "../figures.ts";
import { drawPlot } from "./draw-plot.ts";
import { FIGURES, type PeerFigures, type Round } from "./figures-file.ts";

const PAGE = fileURLToPath(new URL("../../docs/reference/benchmarks.md", import.meta.url));
const PLOT = fileURLToPath(new URL("../../docs/images/benchmarks.svg", import.meta.url));
const START = "<!-- figures: written by npm run bench:peers -->\n";
const END = "<!-- end of figures -->\n";

/** Names of figures on the page, in order. */
const LABELS: Readonly<Record<string, string>> = {
  "person-etl": "person-etl",
  "person-etl --resend": "person-etl --resend",
  "dlt, Arrow, Parquet": "dlt, Arrow by hand, Parquet",
  "dlt, Arrow, CSV": "dlt, Arrow by hand, CSV",
  "dlt, automatic": "dlt, automatic normalizing",
  floor: "floor: HTTP, JSON.parse, COPY",
  "floor: HTTP and JSON.parse": "floor: HTTP, JSON.parse",
};

/** Medians of a client in one night. */
export interface Medians {
  readonly what: string;
  readonly label: string;
  readonly rounds: number;
  readonly peoplePerSecond: number;
  /** Slowest and fastest round. */
  readonly range: readonly [number, number];
  readonly clientCpu: number;
  readonly serverCpu: number;
  readonly residentMb: number;
}

const whole = (value: number) => Math.round(value).toLocaleString("en");

/** Medians of every client in one night of these rounds, in the order of the page. */
export function mediansOf(rounds: readonly Round[], night: "first" | "second"): readonly Medians[] {
  return Object.entries(LABELS).flatMap(([what, label]) => {
    const found = rounds.flatMap((each) => each[night].filter((figures) => figures.what === what));
    if (found.length === 0) return [];
    const of = (pick: (figures: Figures) => number) => found.map(pick);
    const speeds = of((f) => f.people_per_second);
    return {
      what,
      label,
      rounds: found.length,
      peoplePerSecond: median(speeds),
      range: [Math.min(...speeds), Math.max(...speeds)] as const,
      clientCpu: median(of((f) => f.client_cpu_per_1000)),
      serverCpu: median(of((f) => f.server_cpu_per_1000 ?? 0)),
      residentMb: median(of((f) => f.peak_tree_mb)),
    };
  });
}

function tableOf(medians: readonly Medians[]): string {
  const own = medians.find(({ what }) => what === "person-etl")?.peoplePerSecond ?? 0;
  const lines = medians.map(({ label, what, peoplePerSecond, range, clientCpu, serverCpu, residentMb }) => {
    const times = what === "person-etl" ? "" : `${round(own / peoplePerSecond, 1)} ×`;
    return `| ${label} | ${whole(peoplePerSecond)} (${whole(range[0])} to ${whole(range[1])}) | ${times} | ${clientCpu.toFixed(3)} + ${serverCpu.toFixed(3)} | ${whole(residentMb)} |`;
  });
  return `| | people/s (slowest to fastest) | person-etl is | CPU s per 1,000 people, client + Postgres | resident MB |
| --- | ---: | ---: | ---: | ---: |
${lines.join("\n")}
`;
}

function sectionOf(rows: number, rounds: readonly Round[]): string {
  const tables = rounds[0]?.tables ?? {};
  const all = Object.values(tables).reduce((sum, count) => sum + count, 0);
  const nights = mediansOf(rounds, "first");
  const fewer = nights
    .filter((each) => each.rounds < rounds.length)
    .map((each) => `${each.label}: ${each.rounds}`);
  const times = rounds.length === 1 ? "one round" : `medians of ${rounds.length} rounds`;
  const note = fewer.length === 0 ? "" : ` (${fewer.join(", ")})`;
  return `**${whole(rows)} input rows, ${whole(tables["person"] ?? 0)} people, ${whole(all)} rows stored; ${times}${note}.**

First night:

${tableOf(nights)}
Second night, nothing changed:

${tableOf(mediansOf(rounds, "second"))}`;
}

/** Returns the page with its generated part from these figures. */
export function fillPage(page: string, { at, machine, versions, rounds }: PeerFigures): string {
  const named = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  const sections = sizesOf(rounds).map((rows) =>
    sectionOf(
      rows,
      rounds.filter((each) => each.rows === rows),
    ),
  );
  const [before, after] = [page.indexOf(START), page.indexOf(END)];
  if (before < 0 || after < before) throw new Error("The page has no place for figures.");
  return `${page.slice(0, before + START.length)}
Measured on ${at}: ${machine.cores} cores of ${machine.cpu}, ${machine.memory_gb} GB; ${named.join(", ")}.

${sections.join("\n")}
${page.slice(after)}`;
}

/** Plot of the rounds with the most rows. */
export function plotOf({ rounds }: PeerFigures): string {
  const [most] = sizesOf(rounds);
  const largest = rounds.filter(({ rows }) => rows === most);
  return drawPlot(mediansOf(largest, "first"), mediansOf(largest, "second"));
}

/** Numbers of input rows, largest first. */
const sizesOf = (rounds: readonly Round[]): readonly number[] =>
  [...new Set(rounds.map(({ rows }) => rows))].toSorted((a, b) => b - a);

/** Writes the tables of docs/reference/benchmarks.md and its plot from the committed figures. */
export function writePage(): void {
  // The file has this form because `main.ts` wrote it.
  const figures = JSON.parse(readFileSync(FIGURES, "utf8")) as PeerFigures;
  writeFileSync(PAGE, fillPage(readFileSync(PAGE, "utf8"), figures));
  writeFileSync(PLOT, plotOf(figures));
}

if (import.meta.main) writePage();
