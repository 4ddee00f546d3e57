import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";

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
    readonly records_matched: number;
    readonly requests: number;
  }[];
}

function start(dataDir: string): { readonly report: Report; readonly seconds: number } {
  const startedAt = performance.now();
  const { status, stdout, stderr } = spawnSync("npm", ["start", "--silent", "--", "--json"], {
    cwd: root,
    encoding: "utf8",
    env: { ...process.env, PERSON_ETL_DATA_DIR: dataDir },
    maxBuffer: 64 * 1024 * 1024,
  });
  if (status !== 0) throw new Error(`npm start ended with ${status}:\n${stderr}`);
  return { report: JSON.parse(stdout) as Report, seconds: (performance.now() - startedAt) / 1000 };
}

test("npm start enriches at least 10,000 people the first time and sends nothing the second time", () => {
  const dataDir = mkdtempSync(join(tmpdir(), "person-etl-start-"));
  try {
    const first = start(dataDir);
    const enriched = first.report.jobs.find((job) => job.job === "enrich_customers");
    expect(first.report.status).toBe("succeeded");
    expect(enriched?.records_matched).toBeGreaterThanOrEqual(10_000);
    expect(first.seconds).toBeLessThan(180);
    const second = start(dataDir);
    expect(second.report.status).toBe("succeeded");
    const { jobs } = second.report;
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
