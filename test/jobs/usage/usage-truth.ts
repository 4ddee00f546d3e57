import type { Clock } from "../../../src/clock.ts";
import type { RunRequest } from "../../../src/jobs/services.ts";
import { controlSandbox } from "../../support/sandbox-control.ts";
import { fastClock, jobOf, type World } from "../world.ts";

/** A sandbox, and the warehouse that is compared with it. */
export interface Compared {
  readonly sandbox: { readonly url: string };
  rows(sql: string): Promise<readonly Readonly<Record<string, unknown>>[]>;
}

/** Counts as texts, in column order: requests, records, resolvable ones, matches. */
export type CountTexts = readonly string[];

const COUNTS = ["total_requests", "num_input_records", "num_resolvable_records", "num_matches"] as const;
/** Columns of {@link CountTexts}. */
const COUNT_COLUMNS = COUNTS.join(", ");

type Stated = Readonly<Record<(typeof COUNTS)[number], number>>;

/** JSON response of the sandbox. */
export async function ask({ sandbox }: Compared, path: string): Promise<unknown> {
  const response = await fetch(sandbox.url + path, { headers: { "x-api-key": "truth" } });
  if (!response.ok) throw new Error(`${path} answered ${response.status}`);
  return response.json();
}

/** The sandbox's time, milliseconds. */
async function nowOf({ sandbox }: Compared): Promise<number> {
  const { now } = await controlSandbox<{ now: string }>(sandbox.url, "");
  return Date.parse(now);
}

const textsOf = (counts: Stated): CountTexts => COUNTS.map((name) => String(counts[name]));

/** Buckets that the sandbox reports now, without faults, by endpoint and start (UTC, `2026-06-10 04:00:00+00`). */
export async function statedBuckets(
  place: Compared,
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
  const { results } = (await ask(place, `/usage?${query.toString()}`)) as {
    results: { endpoint: string; buckets: (Stated & { bucket_start: string })[] }[];
  };
  const nowMs = await nowOf(place);
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
  place: Compared,
  size: string,
  zone: string,
): Promise<Map<string, CountTexts>> {
  const rows = await place.rows(
    `SELECT endpoint || ' ' || to_char(bucket_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS"+00"') AS name, ${COUNT_COLUMNS}
     FROM person_data_ops.endpoint_usage_bucket WHERE bucketing_size = '${size}' AND timezone = '${zone}'`,
  );
  return new Map(rows.map((row) => [String(row["name"]), COUNTS.map((name) => String(row[name]))]));
}

/** Days of person search that the sandbox reports now. */
export async function statedDays(place: Compared): Promise<readonly Record<string, string>[]> {
  // The sandbox's answer (section 2.9).
  const { history } = (await ask(place, "/person-search/v0/usage?days=90")) as {
    history: Record<string, string | number>[];
  };
  return history.map((row) =>
    Object.fromEntries(Object.entries(row).map(([name, value]) => [name, String(value)])),
  );
}

/** Stored days of person search. */
export async function storedDays(place: Compared): Promise<readonly Readonly<Record<string, unknown>>[]> {
  return place.rows(
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
