import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { strict as assert } from "node:assert";

/** `npm start` twice on an empty data folder: the first enriches at least 10,000 people, the second sends nothing. */
const root = new URL("../..", import.meta.url).pathname;
const dataDir = mkdtempSync(join(tmpdir(), "person-etl-start-"));

const LOOKUPS: ReadonlySet<string> = new Set(["resolve", "validate_emails", "enrich"]);
/** What the service counts moves with our own calls. */
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

function start(): { readonly report: Report; readonly seconds: number } {
  const startedAt = performance.now();
  const { status, stdout, stderr } = spawnSync("npm", ["start", "--silent", "--", "--json"], {
    cwd: root,
    encoding: "utf8",
    env: { ...process.env, PERSON_ETL_DATA_DIR: dataDir },
    maxBuffer: 64 * 1024 * 1024,
  });
  assert.equal(status, 0, `npm start ended with ${status}:\n${stderr}`);
  return { report: JSON.parse(stdout) as Report, seconds: (performance.now() - startedAt) / 1000 };
}

try {
  const first = start();
  const enriched = first.report.jobs.find((job) => job.job === "enrich_customers");
  assert.equal(first.report.status, "succeeded");
  assert.ok((enriched?.records_matched ?? 0) >= 10_000, "the first start enriches at least 10,000 people");
  assert.ok(first.seconds < 180, `the first start took ${first.seconds} s`);
  const second = start();
  assert.equal(second.report.status, "succeeded");
  for (const job of second.report.jobs) {
    assert.equal(job.status, "succeeded", `${job.job} succeeds`);
    assert.equal(job.records_sent, 0, `${job.job} sends nothing`);
    if (LOOKUPS.has(job.type)) {
      assert.ok(job.records_read > 0, `${job.job} reads its input again`);
      assert.equal(job.requests, 0, `${job.job} asks nothing`);
    } else if (!USAGE.has(job.type)) {
      // The segment that the first start made is there again, with its members.
      assert.equal(job.rows_written, 0, `${job.job} finds nothing changed`);
    }
  }
  process.stdout.write(
    `first start ${first.seconds.toFixed(1)} s, ${enriched?.records_matched} people; second start ${second.seconds.toFixed(1)} s, nothing sent\n`,
  );
} finally {
  rmSync(dataDir, { recursive: true, force: true });
}
