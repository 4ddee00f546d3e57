import { fastClock } from "../extract/scripted-service.ts";
import type { Clock } from "../../src/clock.ts";
import { createLimiter } from "../../src/extract/limits.ts";
import { codeOf } from "../../src/errors.ts";
import { configOf, startWorld, type World } from "../jobs/world.ts";
import { unaccounted } from "../nights/night.ts";
import { withoutRejected } from "../faults/rejected-rows.ts";
import { findDifferences, MEMORY, readContents, type TableContents } from "../support/comparable-tables.ts";
import { runSql } from "../support/run-sql.ts";
import { daysToNoon } from "../support/held-day.ts";
import { startFuzzedService } from "./fuzzed-service.ts";

/** Expected ends of jobs under fuzz; any other one is a bug. */
const KNOWN_ENDS: ReadonlySet<string> = new Set([
  "unanswered",
  "similar_failures",
  "service_failing",
  "forbidden",
  "not_found",
  "method_not_allowed",
  "unexpected_status",
  "request_refused",
  "redirected",
  "key_rejected",
  "credits",
  "quota",
  "run_stopped",
  "dependency_failed",
  "service_unreachable",
]);

/** Tables and columns that keep odd values. */
const ODD = {
  withoutTables: ["lookup_answer", "match_history", "person_history", "reject", "input_email"],
  withoutColumns: [...MEMORY, "call_number", "group_call_numbers"],
};

/** Runs jobs separately, so that one job's answers don't change another's requests. */
const JOBS_TEXT = `
  resolve_customers: { type: resolve, input: customers }
  validate_customers: { type: validate_emails, input: customers, refresh_after: 30d }
  enrich_customers: { type: enrich, input: customers, refresh_after: 90d, refresh_unmatched_after: 30d }`;

/** Jobs by path, with the table of their answers. */
const JOBS: Readonly<Record<string, { readonly job: string; readonly table: string }>> = {
  "/v1/resolve": { job: "resolve_customers", table: "resolution" },
  "/v2/validate_emails": { job: "validate_customers", table: "email_validation" },
  "/v2/enrich": { job: "enrich_customers", table: "enrichment" },
};

/** Rows of answers that depend only on a night's sound answers, given as `/path id`. */
function decidedBy(
  sound: readonly string[],
  rowKeys: ReadonlyMap<string, readonly string[]>,
  contents: TableContents,
): TableContents {
  const decided = new Map<string, Map<string, string>>();
  for (const text of sound) {
    const [path = "", ...id] = text.split(" ");
    const { job = "", table = "" } = JOBS[path] ?? {};
    for (const sourceKey of rowKeys.get(`${job} ${id.join(" ")}`) ?? []) {
      const key = table === "email_validation" ? sourceKey : `${job} ${sourceKey}`;
      const row = contents.get(table)?.get(key);
      const rows = decided.get(table) ?? new Map<string, string>();
      if (row !== undefined) decided.set(table, rows.set(key, row));
    }
  }
  return decided;
}

/** Input rows of each record, by job and ID; the address of a validation is both. */
async function readRowKeys(url: string): Promise<ReadonlyMap<string, readonly string[]>> {
  const rows = await runSql(
    url,
    `SELECT job || ' ' || left(encode(content, 'hex'), 32) AS id, source_key AS key FROM person_data_state.lookup_row
        WHERE content IS NOT NULL
      UNION SELECT 'validate_customers ' || email_address, email_address FROM person_data.input_email`,
  );
  const byId = Map.groupBy(rows, ({ id }) => String(id));
  return new Map([...byId].map(([id, all]) => [id, all.map(({ key }) => String(key))]));
}

/** Runs one night; returns the problems of its end. */
async function spendNight(
  { world, clock }: { readonly world: World; readonly clock: Clock },
  resend: boolean,
): Promise<readonly string[]> {
  const limiter = createLimiter({ concurrency: 2, requestsPerSecond: null, clock });
  try {
    const report = await world.run({ resend, yes: true }, { clock, limiter });
    const wrong = report.jobs.flatMap(({ job, error }) =>
      error === undefined || KNOWN_ENDS.has(error.code)
        ? []
        : [`${job} ended with ${error.code}: ${error.message}`],
    );
    return [...unaccounted(report), ...wrong];
  } catch (error) {
    return [`the run threw ${codeOf(error) ?? String(error)}`];
  }
}

async function startFuzzWorld(seed: number): Promise<World> {
  const world = await startWorld({ rows: 250, people: 2000, seed, config: configOf(JOBS_TEXT) });
  await world.control("/clock", { days: daysToNoon() });
  return world;
}

async function undisturbed(seed: number): Promise<TableContents> {
  const world = await startFuzzWorld(seed);
  await world.run();
  const contents = await readContents(world.url, ODD);
  await world.close();
  return contents;
}

/**
 * Runs the real jobs against a damaging service and a real warehouse, night after night, and sends every record each
 * night. After each night all soundly answered rows must be exact; after a final, sound night all rows.
 */
export async function fuzzNights({ seed, answers }: { readonly seed: number; readonly answers: number }) {
  const expected = await undisturbed(seed);
  const world = await startFuzzWorld(seed);
  // Makes minutes of waiting pass in a test.
  const clock = fastClock(400);
  const service = await startFuzzedService(world.sandbox.url, seed, clock);
  world.serviceUrl = service.url;
  const failures: string[] = [];
  let [nights, mutated, soundRecords] = [0, 0, 0];
  try {
    service.rate = 0.5;
    while (mutated < answers && failures.length === 0) {
      nights += 1;
      failures.push(...(await spendNight({ world, clock }, nights > 1)));
      const rowKeys = await readRowKeys(world.url);
      const served = service.take();
      mutated += served.mutated;
      soundRecords += served.sound.length;
      const actual = await readContents(world.url, ODD);
      const [wanted, found] = [expected, actual].map((rows) => decidedBy(served.sound, rowKeys, rows));
      if (wanted && found) failures.push(...findDifferences(wanted, found));
    }
    service.rate = 0;
    // The first run finishes the current resend, the second sends everything again.
    for (let i = 0; i < 2; i++) failures.push(...(await spendNight({ world, clock }, true)));
    const actual = await readContents(world.url, ODD);
    // What an odd refusal turned into a reject isn't sent again.
    failures.push(...findDifferences(...(await withoutRejected(world, expected, actual))));
  } finally {
    await service.close();
    await world.close();
  }
  return {
    nights,
    mutated,
    soundRecords,
    applied: service.applied,
    failures: failures.map((failure) => `seed ${seed}, night ${nights}: ${failure}`),
  };
}
