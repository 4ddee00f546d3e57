import type { JobOf } from "../../config/config.ts";
import { choice } from "../../config/schema/settings.ts";
import { jobSettings } from "../../config/schema/jobs.ts";
import { day } from "../../config/schema/values.ts";
import { fromEnvelope } from "../../extract/free-call.ts";
import { countText } from "../../figures.ts";
import { openZone, type Zone } from "../../schedule/zone.ts";
import { type Cell, type DriftLog, instantAt, instantText, jsonType } from "../../schemas/convert.ts";
import { hasError } from "../../schemas/error-body.ts";
import { extraCell, flattenerOf, isJsonObject, type JsonObject } from "../../schemas/flatten.ts";
import {
  DAYS_UNTIL_FINAL,
  endpointUsageEndpoint,
  endpointUsageRecord,
  readEndpoint,
} from "../../schemas/usage.ts";
import { type FeedContext, type FeedJobType, readCursor } from "../feed.ts";
import {
  type Bucket,
  type BucketingSize,
  bucketsBetween,
  CORRECTED_FOR_DAYS,
  DAY_MS,
  dayAt,
  dayText,
  planPass,
  usageCursor,
  type Window,
} from "./calendar.ts";

interface WrittenStart {
  /** The instant, or the wall-clock time as if it were UTC. */
  readonly atMs: number;
  /** True without an offset or `Z`. */
  readonly isLocal: boolean;
}

/** Null if the value is not a time. */
function readStart(value: unknown): WrittenStart | null {
  if (typeof value !== "string") return null;
  const text = instantText(/^\d{4}-\d\d-\d\d$/.test(value) ? `${value}T00:00:00` : value);
  if (text === null) return null;
  return { atMs: Date.parse(text), isLocal: !/(?:[Zz]|[+-]\d\d:?(?:\d\d)?)$/.test(value.slice(10)) };
}

/** Local starts in chronological order; null if the list is neither ascending nor descending. */
function inOrder(starts: readonly WrittenStart[]): readonly WrittenStart[] | null {
  const steps = starts.slice(1).map(({ atMs }, i) => atMs - (starts[i]?.atMs ?? 0));
  if (steps.every((step) => step >= 0)) return starts;
  return steps.every((step) => step <= 0) ? starts.toReversed() : null;
}

/**
 * Finds the calendar's bucket for each start in a list; null if none matches. A start with offset or `Z` is an instant,
 * others are local time. Two hours with the same local time are distinguished by their order, if the list has both.
 */
export function placeBuckets(
  size: BucketingSize,
  calendar: readonly Bucket[],
  starts: readonly unknown[],
): readonly (Bucket | null)[] {
  const byInstant = new Map(calendar.map((bucket) => [bucket.startMs, bucket]));
  const byLocal = new Map(Map.groupBy(calendar, ({ localMs }) => localMs));
  if (size !== "hour") {
    // A day whose midnight is skipped may also be listed with midnight as its start.
    for (const bucket of calendar) byLocal.set(Math.floor(bucket.localMs / DAY_MS) * DAY_MS, [bucket]);
  }
  const read = starts.map(readStart);
  const local = read.flatMap((start) => (start?.isLocal ? [start] : []));
  const ordered = inOrder(local);
  const namesakes = Map.groupBy(ordered ?? local, ({ atMs }) => atMs);
  return read.map((start) => {
    if (start === null) return null;
    if (!start.isLocal) return byInstant.get(start.atMs) ?? null;
    const [candidates = [], same = []] = [byLocal.get(start.atMs), namesakes.get(start.atMs)];
    const isClear = candidates.length === same.length && (same.length === 1 || ordered !== null);
    return (isClear && candidates[same.indexOf(start)]) || null;
  });
}

const settings = jobSettings("endpoint_usage", {
  bucketing_size: choice(["hour", "day", "week", "month", "quarter", "year"]).default("day"),
  /** First day, `YYYY-MM-DD`, inclusive. */
  start_date: day(),
});

/** Job that reads the usage of every endpoint; `timezone` also applies to the buckets. */
type EndpointUsageJobConfig = JobOf<typeof settings>;
type Context = FeedContext<EndpointUsageJobConfig>;

const record = flattenerOf(endpointUsageRecord);
const [, ...totalColumns] = record.fieldNames;
const [, ...countColumns] = Object.keys(endpointUsageRecord.lists.buckets.fields);

/** Usage of one endpoint in a response: cells in column order. */
interface Result {
  /** Without a leading slash. */
  readonly endpoint: string;
  /** Cells of {@link totalColumns} and `_extra`. */
  readonly totals: readonly Cell[];
  readonly buckets: readonly AnsweredBucket[];
}

interface AnsweredBucket {
  /** As sent; null if missing. */
  readonly start: Cell;
  /** Cells of {@link countColumns} and `_extra`. */
  readonly counts: readonly Cell[];
}

function readResult(sent: unknown, drift: DriftLog): Result | null {
  if (!isJsonObject(sent)) {
    drift.note("unexpected_type", "results[]", jsonType(sent));
    return null;
  }
  const { object, lists } = record.flatten(sent, "", drift);
  const [sentName, ...totals] = object.cells.map((cell) => cell ?? null);
  const name = readEndpoint(sentName);
  if (name === null) {
    drift.note("unexpected_type", "endpoint", jsonType(sent["endpoint"]));
    return null;
  }
  const buckets = (lists[0]?.rows ?? []).map(([, , start = null, ...counts]) => ({ start, counts }));
  return { endpoint: name, totals: [...totals, extraCell(object.extra)], buckets };
}

/** Null for a body without a list of results, or with an empty list and an error. */
function readResults(body: JsonObject, drift: DriftLog): readonly Result[] | null {
  const { results } = body;
  const list: readonly unknown[] | null = results === null ? [] : Array.isArray(results) ? results : null;
  if (list === null || (list.length === 0 && hasError(body))) return null;
  return list.flatMap((result) => readResult(result, drift) ?? []);
}

/** Requests usage; `receivedMs` is local time. */
async function ask(context: Context, query: Readonly<Record<string, string>>) {
  const parameters = new URLSearchParams({ ...query, include_unused_endpoints: "true" });
  const reply = await context.call({
    endpoint: endpointUsageEndpoint,
    path: `${endpointUsageEndpoint.path}?${parameters.toString()}`,
    read: fromEnvelope(readResults),
  });
  if (reply.kind === "refused") throw reply.stop;
  return { results: reply.value, receivedMs: context.clock.now(), drift: reply.drift };
}

async function readTotals(context: Context): Promise<void> {
  const { results, receivedMs, drift } = await ask(context, {});
  const observedDate = instantAt(receivedMs).slice(0, 10);
  const rows = results.map((result) => [result.endpoint, observedDate, ...result.totals]);
  await context.commit({
    drift: drift.entries(),
    counters: { records_received: rows.length },
    upserts: [
      {
        table: "endpoint_usage",
        columns: ["endpoint", "observed_date", ...totalColumns, "_extra"],
        rows,
      },
    ],
  });
}

const ZEROS: readonly Cell[] = [...countColumns.map(() => "0"), null];
/** The request count is the first cell of totals and of buckets. */
const requestsOf = ([requests = null]: readonly Cell[]): number => Number(requests ?? Number.NaN);

/** Finds the bucket of each start in a response. Omitted buckets are zero if the others add up to the total. */
function countBuckets(
  size: EndpointUsageJobConfig["bucketingSize"],
  calendar: readonly Bucket[],
  { totals, buckets }: Result,
): { readonly counts: ReadonlyMap<Bucket, readonly Cell[]>; readonly leftOut: number } {
  const counted = new Map<Bucket, readonly Cell[]>();
  const placed = placeBuckets(
    size,
    calendar,
    buckets.map(({ start }) => start),
  );
  for (const [i, { counts }] of buckets.entries()) {
    const bucket = placed[i];
    if (!bucket) continue;
    // Some services also list the hour skipped by the clock, with zeros.
    const other = counted.get(bucket);
    if (!other || requestsOf(counts) > requestsOf(other)) counted.set(bucket, counts);
  }
  const leftOut = buckets.length - counted.size;
  const sum = buckets.reduce((total, { counts }) => total + requestsOf(counts), 0);
  if (leftOut > 0 || sum !== requestsOf(totals)) return { counts: counted, leftOut };
  return { counts: new Map(calendar.map((bucket) => [bucket, counted.get(bucket) ?? ZEROS])), leftOut };
}

const bucketColumns = [
  "endpoint",
  "bucketing_size",
  "timezone",
  "bucket_start",
  "bucket_start_local",
  "bucket_end",
  ...countColumns,
  "_extra",
  "observed_at",
  "is_final",
];

/** Reads and commits one window. Returns the number of buckets not found in the calendar. */
async function readWindow(
  context: Context,
  zone: Zone,
  pass: ReturnType<typeof planPass>,
  window: Window,
): Promise<number> {
  const { job } = context;
  const { bucketingSize: size, timezone } = job;
  const { results, receivedMs, drift } = await ask(context, {
    start_date: dayText(window.from),
    end_date: dayText(window.to - 1),
    bucketing_size: size,
    timezone,
  });
  const calendar = bucketsBetween(size, zone, window);
  const hasEnded = ({ endMs }: Bucket, daysAgo: number): boolean => endMs + daysAgo * DAY_MS <= receivedMs;
  const rows: (readonly Cell[])[] = [];
  let leftOut = 0;
  for (const result of results) {
    const counted = countBuckets(size, calendar, result);
    leftOut += counted.leftOut;
    for (const [bucket, counts] of counted.counts) {
      if (bucket.startMs > receivedMs) continue;
      rows.push([
        result.endpoint,
        size,
        timezone,
        instantAt(bucket.startMs),
        instantAt(bucket.localMs).slice(0, 19),
        instantAt(bucket.endMs),
        ...counts,
        instantAt(receivedMs),
        String(hasEnded(bucket, DAYS_UNTIL_FINAL)),
      ]);
    }
  }
  if (leftOut > 0) drift.note("unexpected_type", "buckets[].bucket_start", "string");
  const open = calendar.find((bucket) => !hasEnded(bucket, CORRECTED_FOR_DAYS));
  await context.commit({
    drift: drift.entries(),
    counters: { records_received: rows.length },
    upserts: [{ table: "endpoint_usage_bucket", columns: bucketColumns, rows, along: ["observed_at"] }],
    checkpoints: [
      { stream: streamOf(job), cursor: pass.after(window, open ? dayAt(zone, open.startMs) : null) },
    ],
  });
  return leftOut;
}

/** Logs how many buckets were left out, and between which days. */
function reportLeftOut(
  { job, log, progress }: Context,
  windows: readonly (Window & { readonly leftOut: number })[],
): void {
  const [first, last] = [windows[0], windows.at(-1)];
  if (!first || !last) return;
  const buckets = windows.reduce((sum, { leftOut }) => sum + leftOut, 0);
  const [from, to] = [dayText(first.from), dayText(last.to - 1)];
  log.warn({ job: job.name, buckets, from, to, timezone: job.timezone }, "usage_buckets_left_out");
  progress.note(
    job.name,
    `Skipped ${countText(buckets, "bucket")} between ${from} and ${to}: no ${job.bucketingSize} of ${job.timezone} starts at the time in the response.`,
  );
}

/** One stream per size and zone. */
function streamOf({ bucketingSize, timezone }: EndpointUsageJobConfig): string {
  return `${bucketingSize} ${timezone}`;
}

async function run(context: Context): Promise<void> {
  const { job, clock, log } = context;
  const zone = openZone(job.timezone);
  const isFull = context.request.fullRefresh;
  const cursor = isFull ? null : readCursor(context.checkpoints, job, streamOf(job), usageCursor);
  await readTotals(context);
  const pass = planPass(job.bucketingSize, job.startDate, cursor, dayAt(zone, clock.now()));
  const unclear: (Window & { readonly leftOut: number })[] = [];
  try {
    for (const window of pass.windows) {
      const leftOut = await readWindow(context, zone, pass, window);
      if (leftOut > 0) unclear.push({ ...window, leftOut });
    }
  } finally {
    reportLeftOut(context, unclear);
  }
  log.info({ job: job.name, windows: pass.windows.length }, "endpoint_usage_read");
}

/** Reads the usage of every endpoint: totals, and buckets of one size in one time zone. */
export const endpointUsageJob: FeedJobType<EndpointUsageJobConfig> = {
  type: "endpoint_usage",
  settings,
  isBilled: false,
  endpoints: [endpointUsageEndpoint],
  writes: ["endpoint_usage", "endpoint_usage_bucket"],
  checkpoints: {
    meaning:
      'stream `SIZE ZONE` (`day UTC`): {"from": "2026-01-01", "next": "2026-11-18"}, the first day ever read, and the first day that the next run reads',
    cursor: usageCursor,
    example: { from: "2026-01-01", next: "2026-11-18" },
    streams: async (job) => [streamOf(job)],
    noStream: "",
  },
  plannedCalls: () => ({ least: 2, more: "one for each further window of buckets" }),
  run,
};
