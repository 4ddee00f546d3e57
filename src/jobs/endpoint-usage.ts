import { z } from "zod";
import type { EndpointUsageJobConfig } from "../config/config.ts";
import { readEnvelope } from "../extract/free-call.ts";
import { openZone, type Zone } from "../schedule/zone.ts";
import { type Cell, jsonType } from "../schemas/convert.ts";
import { DriftLog } from "../schemas/drift.ts";
import { extraCell, flattenerOf, isJsonObject, type JsonObject } from "../schemas/flatten.ts";
import { DAYS_UNTIL_FINAL, endpointUsageEndpoint, endpointUsageRecord } from "../schemas/usage.ts";
import type { FeedContext, FeedJobType } from "./feed-type.ts";
import {
  type Bucket,
  dayAt,
  dayNumber,
  dayText,
  firstDay,
  startOfDay,
  type Window,
  windowsOf,
} from "./natural-buckets.ts";
import { type Placement, placeBuckets } from "./place-buckets.ts";
import { readCursor } from "./read-cursor.ts";

const { name: endpoint, method, path } = endpointUsageEndpoint;
type Context = FeedContext<EndpointUsageJobConfig>;

const DAY_MS = 86_400_000;
/** Days before the first open bucket that are read again each time: even final counts are corrected now and then. */
const READ_AGAIN_DAYS = 30;

const day = z.iso.date();
const cursorSchema = z.object({
  /** First day that was ever read. */
  from: day,
  /** First day of the first bucket that was not final when it was last read. */
  next: day,
  /** Where a pass that was interrupted goes on; null after a whole one. */
  resume_at: day.nullable().default(null),
});

const record = flattenerOf(endpointUsageRecord);
const [, ...totalColumns] = record.fieldNames;
const [, ...countColumns] = Object.keys(endpointUsageRecord.lists.buckets.fields);

/** Usage of one endpoint, as answered: cells in the order of their columns. */
interface Result {
  /** Without a slash before it. */
  readonly endpoint: string;
  /** Of {@link totalColumns} and `_extra`. */
  readonly totals: readonly Cell[];
  readonly buckets: readonly StatedBucket[];
}

interface StatedBucket {
  /** As sent; null where it is missing. */
  readonly start: Cell;
  /** Of {@link countColumns} and `_extra`. */
  readonly counts: readonly Cell[];
}

function readResult(sent: unknown, drift: DriftLog): Result | null {
  if (!isJsonObject(sent)) {
    drift.note("unexpected_type", "results[]", jsonType(sent));
    return null;
  }
  const { object, lists } = record.flatten(sent, "", drift);
  const [name, ...totals] = object.cells.map((cell) => cell ?? null);
  if (name === undefined || name === null) return null;
  const buckets = (lists[0]?.rows ?? []).map(([, , start = null, ...counts]) => ({ start, counts }));
  return { endpoint: name.replace(/^\/+/, ""), totals: [...totals, extraCell(object.extra)], buckets };
}

/** Null for a body without a list of results. */
function readResults(body: JsonObject, drift: DriftLog): readonly Result[] | null {
  const { results = null } = body;
  if (results === null) return [];
  return Array.isArray(results) ? results.flatMap((result) => readResult(result, drift) ?? []) : null;
}

/** Asks for usage; `answeredMs` is the service's time. */
async function ask(context: Context, query: Readonly<Record<string, string>>) {
  let drift = new DriftLog(endpoint);
  const parameters = new URLSearchParams({ ...query, include_unused_endpoints: "true" });
  const reply = await context.call({
    endpoint,
    method,
    path: `${path}?${parameters.toString()}`,
    body: null,
    read(bytes) {
      drift = new DriftLog(endpoint);
      const body = readEnvelope(bytes, drift);
      return body && readResults(body, drift);
    },
  });
  if (reply.kind === "refused") throw new Error("a call without expected refusals was refused");
  const { value: results, answeredAt } = reply;
  return { results, answeredAt, answeredMs: Date.parse(answeredAt), drift };
}

const instant = (atMs: number): string => `${new Date(atMs).toISOString().slice(0, 19)}+00:00`;

/** Commits the totals of all time; the service's time is what the rest goes by. */
async function readTotals(context: Context): Promise<number> {
  const { results, answeredMs, drift } = await ask(context, {});
  const observedDate = instant(answeredMs).slice(0, 10);
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
  return answeredMs;
}

/** Where a pass begins: a local day. */
function beginOf(job: EndpointUsageJobConfig, cursor: z.output<typeof cursorSchema> | null): number {
  const start = dayNumber(job.startDate);
  if (!cursor || firstDay(job.bucketingSize, start) < dayNumber(cursor.from)) return start;
  const next = dayNumber(cursor.next);
  const begin =
    cursor.resume_at === null ? next - READ_AGAIN_DAYS : Math.min(next, dayNumber(cursor.resume_at));
  return Math.max(start, begin);
}

const ZEROS: readonly Cell[] = [...countColumns.map(() => "0"), null];
/** Requests come first, of totals and of buckets. */
const requestsOf = ([requests = null]: readonly Cell[]): number => Number(requests ?? Number.NaN);

/** The buckets of one endpoint; also zeros for those that the answer leaves out and its sum leaves no room for. */
function bucketsOf(
  result: Result,
  placement: Placement,
): readonly { readonly bucket: Bucket; readonly counts: readonly Cell[] }[] {
  const { expected } = placement;
  const placed = placement.place(result.buckets.map(({ start }) => start));
  const told = result.buckets.flatMap(({ counts }, i) => {
    const bucket = placed[i];
    return bucket ? [{ bucket, counts }] : [];
  });
  const isWhole =
    told.length === result.buckets.length && told.every(({ bucket }) => expected.includes(bucket));
  const sum = result.buckets.reduce((total, { counts }) => total + requestsOf(counts), 0);
  if (!isWhole || requestsOf(result.totals) !== sum) return told;
  const known = new Set(told.map(({ bucket }) => bucket));
  return [
    ...told,
    ...expected.filter((bucket) => !known.has(bucket)).map((bucket) => ({ bucket, counts: ZEROS })),
  ];
}

async function readWindow(
  context: Context,
  zone: Zone,
  window: Window & { readonly reachesNow: boolean },
): Promise<{ readonly commit: (cursor: object) => Promise<void>; readonly firstOpen: number | null }> {
  const { job } = context;
  const { bucketingSize: size, timezone } = job;
  // Weeks of the service's own, which don't begin on Monday, lie whole in one window or the next.
  const asked = { ...window, from: window.from - (size === "week" ? 7 : 0) };
  const beginMs = startOfDay(zone, window.from);
  const { results, answeredAt, answeredMs, drift } = await ask(context, {
    start_date: dayText(asked.from),
    end_date: dayText(window.to - 1),
    bucketing_size: size,
    timezone,
  });
  const starts = results.flatMap(({ buckets }) => buckets.map(({ start }) => start));
  const placement = placeBuckets({ size, zone }, asked, starts);
  const rows: (readonly Cell[])[] = [];
  for (const result of results) {
    for (const { bucket, counts } of bucketsOf(result, placement)) {
      if (bucket.startMs > answeredMs || bucket.endMs <= beginMs) continue;
      rows.push([
        result.endpoint,
        size,
        timezone,
        instant(bucket.startMs),
        instant(bucket.localMs).slice(0, 19),
        instant(bucket.endMs),
        ...counts,
        answeredAt,
        String(bucket.endMs + DAYS_UNTIL_FINAL * DAY_MS <= answeredMs),
      ]);
    }
  }
  if (placement.unreadable > 0) drift.note("unexpected_type", "buckets[].bucket_start", "string");
  const open = placement.expected.find(
    ({ endMs }) => endMs > beginMs && endMs + DAYS_UNTIL_FINAL * DAY_MS > answeredMs,
  );
  return {
    firstOpen: open ? dayAt(zone, open.startMs) : null,
    async commit(cursor) {
      await context.commit({
        drift: drift.entries(),
        counters: { records_received: rows.length },
        upserts: [
          {
            table: "endpoint_usage_bucket",
            columns: [
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
            ],
            rows,
            along: ["observed_at"],
          },
        ],
        checkpoints: [{ stream: streamOf(job), cursor }],
      });
    },
  };
}

/** A stream for each way of counting. */
function streamOf({ bucketingSize, timezone }: EndpointUsageJobConfig): string {
  return `${bucketingSize} ${timezone}`;
}

async function run(context: Context): Promise<void> {
  const { job, log } = context;
  const size = job.bucketingSize;
  const zone = openZone(job.timezone);
  const cursor = readCursor(context, streamOf(job), cursorSchema);
  const answeredMs = await readTotals(context);
  const today = dayAt(zone, answeredMs);
  const begin = firstDay(size, beginOf(job, cursor));
  const isFromStart = !cursor || begin <= dayNumber(cursor.from);
  const from = isFromStart ? dayText(begin) : cursor.from;
  let next: number | null = null;
  const windows = windowsOf(size, begin, today);
  for (const [i, window] of windows.entries()) {
    const isLast = i === windows.length - 1;
    const read = await readWindow(context, zone, { ...window, reachesNow: isLast });
    next ??= read.firstOpen;
    await read.commit({
      from,
      next: dayText(next ?? window.to),
      resume_at: isLast ? null : dayText(window.to),
    });
  }
  log.info({ job: job.name, windows: windows.length, from: dayText(begin) }, "endpoint_usage_read");
}

/** Keeps the usage of every endpoint: totals, and buckets of one size in one time zone. */
export const endpointUsageJob: FeedJobType<EndpointUsageJobConfig> = {
  endpoints: [endpointUsageEndpoint],
  cursorDoc:
    'stream `SIZE ZONE` (`day UTC`): {"from": "2026-01-01", "next": "2026-11-18"}, the first day ever read, and the first one of a bucket that was not final',
  // One for the totals, one for the newest buckets; more when there is more to catch up with.
  forecast: () => ({ calls: 2, toSend: 0 }),
  run,
};
