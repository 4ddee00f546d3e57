import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify, stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";
import { startOnTerminal } from "./support/on-terminal.ts";

const root = new URL("../..", import.meta.url).pathname;

/** One job in the document of `run --json`. */
interface Job {
  readonly status: string;
  readonly records_sent: number;
}

/** Runs `npm start` on a terminal, as a new user does; returns the summary. */
async function startOnce(dataDir: string): Promise<string> {
  const run = startOnTerminal([], {
    cwd: root,
    columns: 80,
    program: ["npm", "start"],
    env: { PERSON_ETL_DATA_DIR: dataDir },
  });
  const { code, screen } = await run.ended;
  expect(code).toBe(0);
  const plain = stripVTControlCharacters(screen).replaceAll("\r", "");
  return /\n(Run [^]*? enriched\.)/u.exec(plain)?.[1] ?? plain;
}

/** Replaces what differs between runs: the ID, the time, deaths so far, whom searches find by their age and without the dead, and the days since `start_date`. */
function timeless(summary: string): string {
  return summary
    .replace(/^Run \S+/u, "Run ID")
    .replace(/Done in [\d.]+ (?:s|min \d+ s):/u, "Done in TIME:")
    .replace(/(customer_deaths +)\d+/u, "$1DEATHS")
    .replace(/(prospects +1 +1 +)\d+/u, "$1PROSPECTS")
    .replace(/(audiences +1 +1 +)\d+( +)\d+/u, "$1PIDS$2PIDS")
    .replace(/(nurse_members +)\d+/u, "$1PIDS")
    .replace(/[\d,]+ billed, (\S+)\s+people\s+enriched/u, "BILLED, $1 people enriched")
    .replace(/(endpoint_usage +)[\d,]+/u, "$1DAYS");
}

test("npm start prints the summary of the README and sends nothing the second time", async () => {
  const dataDir = mkdtempSync(join(tmpdir(), "person-etl-start-"));
  try {
    const summary = await startOnce(dataDir);
    const readme = await readFile(join(root, "README.md"), "utf8");
    const [, shown = ""] = /\n```\n(Run [\s\S]*?)\n```\n/u.exec(readme) ?? [];
    expect(timeless(summary)).toBe(timeless(shown));
    expect(summary.split("\n").length).toBeLessThanOrEqual(40);
    const { stdout } = await promisify(execFile)("npm", ["start", "--silent", "--", "--json"], {
      cwd: root,
      env: { ...process.env, PERSON_ETL_DATA_DIR: dataDir },
      maxBuffer: 64 * 1024 * 1024,
    });
    const { status, jobs } = JSON.parse(stdout);
    expect(status).toBe("succeeded");
    expect(jobs.filter((job: Job) => job.status !== "succeeded" || job.records_sent > 0)).toEqual([]);
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
});
