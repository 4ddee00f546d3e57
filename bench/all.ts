import { writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { parseArgs } from "node:util";
import { measure } from "./measured-process.ts";

/**
 * Runs the benchmarks of docs/performance.md in one sitting, each beside its floor, and writes what they print to
 * docs/reference/figures.md.
 *
 *     npm run bench:all -- [--only start,quiet]
 *
 * Takes about 40 minutes and 25 GB of disk.
 */
interface Part {
  readonly title: string;
  readonly program: string;
  readonly args: readonly string[];
}

const parts: Readonly<Record<string, Part>> = {
  start: { title: "Short commands and the embedded database", program: "start.ts", args: [] },
  runs: {
    title: "First run, resend and no-op run by number of input rows",
    program: "main.ts",
    args: ["--people", "10000,30000,100000"],
  },
  refresh: {
    title: "A resend after some people changed",
    program: "refresh.ts",
    args: ["--people", "30000", "--rounds", "2"],
  },
  profile: { title: "Where the time goes", program: "profile.ts", args: ["--people", "30000"] },
  quiet: {
    title: "Finding what is due among a million rows",
    program: "quiet-night.ts",
    args: ["--rows", "1000000", "--rounds", "3"],
  },
  memory: {
    title: "Memory of Node.js by people and KB a response",
    program: "memory.ts",
    args: ["--nights", "20000x1,20000x30,100000x1"],
  },
  queries: {
    title: "Status, the page and queries on a million people",
    program: "queries.ts",
    args: ["--people", "1000000"],
  },
  publish: {
    title: "Publication of a million people to DuckDB, and of 1% of them",
    program: "publish.ts",
    args: ["--people", "1000000", "--rounds", "0"],
  },
};

const PAGE = new URL("../docs/reference/figures.md", import.meta.url);
const { values } = parseArgs({ options: { only: { type: "string" } } });
const wanted = values.only?.split(",") ?? Object.keys(parts);

const sections: string[] = [];
for (const [name, { title, program, args }] of Object.entries(parts)) {
  if (!wanted.includes(name)) continue;
  const { stdout } = await measure(process.execPath, [new URL(program, import.meta.url).pathname, ...args]);
  process.stdout.write(`\n${title}\n${stdout}`);
  const command = ["node", `bench/${program}`, ...args].join(" ");
  const printed = stdout.replace(/^Written to .*\n/mu, "").trim();
  sections.push(`## ${title}\n\n\`${command}\`\n\n\`\`\`text\n${printed}\n\`\`\`\n`);
}
if (values.only === undefined) {
  const machine = `${cpus().length} cores of ${cpus()[0]?.model ?? "an unknown processor"}, ${Math.round(totalmem() / 2 ** 30)} GB; Node.js ${process.version}`;
  const date = new Date().toISOString().slice(0, 10);
  writeFileSync(
    PAGE,
    `# Figures of one sitting

Written by \`npm run bench:all\` on ${date}: ${machine}. [Performance](../performance.md) explains the figures and their floors.
Other work on the machine makes single lines slower by half: compare ratios.

${sections.join("\n")}`,
  );
}
