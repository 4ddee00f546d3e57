import type { Clock } from "../../../src/clock.ts";
import type { RunRequest } from "../../../src/jobs/services.ts";
import { fastClock, jobOf, type World } from "../world.ts";

/** Counts as texts, in column order: requests, records, resolvable ones, matches. */
export type CountTexts = readonly string[];

const COUNTS = ["total_requests", "num_input_records", "num_resolvable_records", "num_matches"] as const;
/** Columns of {@link CountTexts}. */
const COUNT_COLUMNS = COUNTS.join(", ");

type Stated = Readonly<Record<(typeof COUNTS)[number], number>>;

async function ask(world: World, path: string): Promise<unknown> {
  const response = await fetch(world.sandbox.url + path, { headers: { "x-api-key": "truth" } });
  if (!response.ok) throw new Error(`${path} answered ${response.status}`);
  return response.json();
}

/** The sandbox's time, milliseconds. */
async function nowOf(world: World): Promise<number> {
  const { now } = await world.control<{ now: string }>("");
  return Date.parse(now);
}

const textsOf = (counts: Stated): CountTexts => COUNTS.map((name) => String(counts[name]));

/** Buckets that the sandbox reports now, without faults, by endpoint and start (UTC, `2026-06-10 04:00:00+00`). */
export async function statedBuckets(
  world: World,
  { size, zone, from, to }: { size: string; zone: string; from: string; to: string },
): Promise<ReadonlyMap<string, CountTexts>> {
  const query = new URLSearchParams({
    start_date: from,
    end_date: to,
    bucketing_size: size,
    timezone: zone,
    include_unused_endpoints: "true",
  });
  // The sandbox's answer (section 2.10).
  const { results } = (await ask(world, `/usage?${query.toString()}`)) as {
    results: { endpoint: string; buckets: (Stated & { bucket_start: string })[] }[];
  };
  const nowMs = await nowOf(world);
  return new Map(
    results.flatMap(({ endpoint, buckets }) =>
      buckets
        .filter((bucket) => Date.parse(bucket.bucket_start) <= nowMs)
        .map((bucket) => {
          const start = new Date(bucket.bucket_start).toISOString().slice(0, 19).replace("T", " ");
          return [`${endpoint} ${start}+00`, textsOf(bucket)];
        }),
    ),
  );
}

/** Stored buckets, by the same names. */
export async function storedBuckets(
  world: World,
  size: string,
  zone: string,
): Promise<Map<string, CountTexts>> {
  const rows = await world.rows(
    `SELECT endpoint || ' ' || bucket_start::text AS name, ${COUNT_COLUMNS}
     FROM person_data_ops.endpoint_usage_bucket WHERE bucketing_size = '${size}' AND timezone = '${zone}'`,
  );
  return new Map(rows.map((row) => [String(row["name"]), COUNTS.map((name) => String(row[name]))]));
}

/** Days of person search that the sandbox reports now. */
export async function statedDays(world: World): Promise<readonly Record<string, string>[]> {
  // The sandbox's answer (section 2.9).
  const { history } = (await ask(world, "/person-search/v0/usage?days=90")) as {
    history: Record<string, string | number>[];
  };
  return history.map((row) =>
    Object.fromEntries(Object.entries(row).map(([name, value]) => [name, String(value)])),
  );
}

/** Stored days of person search. */
export async function storedDays(world: World): Promise<readonly Record<string, string | null>[]> {
  return world.rows(
    `SELECT period_start::text, records_delivered, searches_created, parse_requests
     FROM person_data_ops.person_search_usage_daily ORDER BY period_start`,
  );
}

/** Moves the sandbox's clock to noon (UTC) of a day. */
export async function goTo(world: World, day: string, time = "12:00:00"): Promise<void> {
  const days = (Date.parse(`${day}T${time}Z`) - (await nowOf(world))) / 86_400_000;
  await world.control("/clock", { days });
}

/** A fast clock that starts at the sandbox's time. */
export async function sandboxClock(world: World): Promise<Clock> {
  const clock = fastClock(20);
  const aheadMs = (await nowOf(world)) - clock.now();
  return { ...clock, now: () => clock.now() + aheadMs };
}

/** Runs one job at the sandbox's time. */
export async function runAtItsTime(world: World, job: string, request: Partial<RunRequest> = {}) {
  return jobOf(await world.run(request, { clock: await sandboxClock(world), random: () => 0 }), job);
}

/** Sets the only checkpoint, like `checkpoint set`. */
export async function setCursor(world: World, cursor: object): Promise<void> {
  await world.rows(`UPDATE person_data_ops.checkpoint SET cursor = '${JSON.stringify(cursor)}'`);
}

/** One line per bucket that differs between two maps. */
export function differences(
  stored: ReadonlyMap<string, CountTexts>,
  stated: ReadonlyMap<string, CountTexts>,
): readonly string[] {
  const names = [...new Set([...stored.keys(), ...stated.keys()])].toSorted();
  return names.flatMap((name) => {
    const [mine, theirs] = [stored.get(name)?.join(" "), stated.get(name)?.join(" ")];
    return mine === theirs ? [] : [`${name}: stored ${mine ?? "nothing"}, stated ${theirs ?? "nothing"}`];
  });
}
