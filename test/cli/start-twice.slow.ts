import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify, stripVTControlCharacters } from "node:util";
import { expect, test } from "vitest";
import { startOnTerminal } from "./support/on-terminal.ts";

const root = new URL("../..", import.meta.url).pathname;

const LOOKUPS: ReadonlySet<string> = new Set(["resolve", "validate_emails", "enrich"]);
/** Jobs that read counts of our own calls. */
const USAGE: ReadonlySet<string> = new Set(["search_usage", "endpoint_usage"]);

interface Report {
  readonly status: string;
  readonly jobs: readonly {
    readonly job: string;
    readonly type: string;
    readonly status: string;
    readonly rows_written: number;
    readonly records_read: number;
    readonly records_sent: number;
    readonly requests: number;
  }[];
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

/** Replaces what differs between runs: the ID, the time, deaths so far, who is in an audience without the dead, and the days since `start_date`. */
function timeless(summary: string): string {
  return summary
    .replace(/^Run \S+/u, "Run ID")
    .replace(/Done in [\d.]+ (?:s|min \d+ s):/u, "Done in TIME:")
    .replace(/(customer_deaths +)\d+/u, "$1DEATHS")
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
    const second = JSON.parse(stdout) as Report;
    expect(second.status).toBe("succeeded");
    const { jobs } = second;
    expect(jobs.filter((job) => job.status !== "succeeded" || job.records_sent > 0)).toEqual([]);
    const lookups = jobs.filter((job) => LOOKUPS.has(job.type));
    expect(lookups.length).toBeGreaterThanOrEqual(3);
    // They compare their input again and have nothing to send.
    expect(lookups.filter((job) => job.records_read === 0 || job.requests > 0)).toEqual([]);
    const others = jobs.filter((job) => !LOOKUPS.has(job.type) && !USAGE.has(job.type));
    expect(others.filter((job) => job.rows_written > 0)).toEqual([]);
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
});
