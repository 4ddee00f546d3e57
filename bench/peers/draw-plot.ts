import * as Plot from "@observablehq/plot";
import { parseHTML } from "linkedom";
import type { Medians } from "./write-page.ts";

/** Gray that is readable on white and on black. */
const INK = "#7a7a7a";
const COLORS = { ours: "#3d7fd9", peer: "#d9822b", floor: INK };
const NIGHTS = ["First night, people/s", "All sent again, people/s"] as const;

const colorOf = (what: string) =>
  what.startsWith("person-etl") ? COLORS.ours : what.startsWith("dlt") ? COLORS.peer : COLORS.floor;

/** Draws people/s of both nights as SVG; person-etl's second night is the one in which it sends everything again. */
export function drawPlot(first: readonly Medians[], second: readonly Medians[]): string {
  const bars = [
    ...first.map((medians) => ({ night: NIGHTS[0], ...medians })),
    ...second
      .filter(({ what }) => what !== "person-etl")
      .map((medians) => ({ night: NIGHTS[1], ...medians })),
  ].map(({ night, what, label, peoplePerSecond }) => ({
    night,
    client: label.replace(" --resend", "").replace(/^floor.*/, "floor"),
    peoplePerSecond,
    fill: colorOf(what),
  }));
  const svg = Plot.plot({
    document: parseHTML("<!doctype html><html><body></body></html>").document,
    width: 860,
    height: 230,
    marginLeft: 200,
    marginRight: 50,
    style: { color: INK, fontSize: "13px", background: "none" },
    x: { label: null, grid: true, ticks: 4 },
    y: { label: null, domain: [...new Set(bars.map(({ client }) => client))] },
    fx: { label: null, domain: [...NIGHTS] },
    marks: [
      Plot.barX(bars, { fx: "night", x: "peoplePerSecond", y: "client", fill: "fill" }),
      Plot.text(bars, {
        fx: "night",
        x: "peoplePerSecond",
        y: "client",
        text: ({ peoplePerSecond }: { peoplePerSecond: number }) =>
          Math.round(peoplePerSecond).toLocaleString("en"),
        textAnchor: "start",
        dx: 5,
        fill: INK,
      }),
      Plot.ruleX([0]),
    ],
  });
  svg.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return `${svg.outerHTML}\n`;
}
