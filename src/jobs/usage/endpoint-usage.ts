import type { EndpointUsageJobConfig } from "../../config/config.ts";
import { readEnvelope } from "../../extract/free-call.ts";
import type { MissingRows } from "../../load/feed-warehouse.ts";
import { openZone, type Zone } from "../../schedule/zone.ts";
import { type Cell, jsonType } from "../../schemas/convert.ts";
import { DriftLog } from "../../schemas/drift.ts";
import { tellsError } from "../../schemas/error-body.ts";
import { extraCell, flattenerOf, isJsonObject, type JsonObject } from "../../schemas/flatten.ts";
import { DAYS_UNTIL_FINAL, endpointUsageEndpoint, endpointUsageRecord } from "../../schemas/usage.ts";
import { countText } from "../lookup/estimate.ts";
import type { FeedContext, FeedJobType } from "../feed-type.ts";
import {
  type Bucket,
  type BucketingSize,
  dayAt,
  dayText,
  startOfDay,
  type Window,
} from "./natural-buckets.ts";
import { type Placement, placeBuckets } from "./place-buckets.ts";
import { readCursor } from "../read-cursor.ts";
import { planPass, usageCursor } from "./usage-pass.ts";

const { name: endpoint, method, path } = endpointUsageEndpoint;
type Context = FeedContext<EndpointUsageJobConfig>;

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

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

/** Null for a body that doesn't state its results, be it that there are none. */
function readResults(body: JsonObject, drift: DriftLog): readonly Result[] | null {
  const { results } = body;
  const list: readonly unknown[] | null = results === null ? [] : Array.isArray(results) ? results : null;
  if (list === null || (list.length === 0 && tellsError(body))) return null;
  return list.flatMap((result) => readResult(result, drift) ?? []);
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
  const told = new Map<number, { readonly bucket: Bucket; readonly counts: readonly Cell[] }>();
  for (const [i, { counts }] of result.buckets.entries()) {
    const bucket = placed[i];
    if (!bucket) continue;
    // Of two of one begin (a simple service tells zeros of an hour that the clock skips) the one with more counts.
    const known = told.get(bucket.startMs);
    if (!known || !(requestsOf(known.counts) >= requestsOf(counts)))
      told.set(bucket.startMs, { bucket, counts });
  }
  const isWhole =
    told.size === result.buckets.length &&
    [...told.values()].every(({ bucket }) => expected.includes(bucket));
  const sum = result.buckets.reduce((total, { counts }) => total + requestsOf(counts), 0);
  if (!isWhole || requestsOf(result.totals) !== sum) return [...told.values()];
  return [
    ...told.values(),
    ...expected.filter(({ startMs }) => !told.has(startMs)).map((bucket) => ({ bucket, counts: ZEROS })),
  ];
}

/** Buckets that haven't ended were once read as final, when the service's clock was ahead: they are not. */
function takenForPast({ bucketingSize, timezone }: EndpointUsageJobConfig, at: string): MissingRows {
  return {
    scope: { bucketing_size: bucketingSize, timezone },
    after: { column: "bucket_end", at },
    flag: "is_final",
    since: "observed_at",
    at,
  };
}

/**
 * Days that are asked for before a window, so that every bucket with bounds of the service's own lies whole in it or in
 * the one before: weeks that don't begin on Monday, and hours of UTC where local ones begin at half past.
 */
function daysBefore(size: BucketingSize, zone: Zone, { from, to }: Window): number {
  if (size === "week") return 7;
  const isOff = [from, to].some((day) => zone.offsetMs(startOfDay(zone, day)) % HOUR_MS !== 0);
  return size === "hour" && isOff ? 1 : 0;
}

async function readWindow(
  context: Context,
  zone: Zone,
  window: Window & { readonly reachesNow: boolean },
): Promise<{ readonly commit: (cursor: object) => Promise<void>; readonly firstOpen: number | null }> {
  const { job } = context;
  const { bucketingSize: size, timezone } = job;
  const asked = { ...window, from: window.from - daysBefore(size, zone, window) };
  const beginMs = startOfDay(zone, window.from);
  const { results, answeredAt, answeredMs, drift } = await ask(context, {
    start_date: dayText(asked.from),
    end_date: dayText(window.to - 1),
    bucketing_size: size,
    timezone,
  });
  const lists = results.map(({ buckets }) => buckets.map(({ start }) => start));
  const placement = placeBuckets({ size, zone }, { ...asked, answeredMs }, lists);
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
  if (placement.unclear > 0) {
    const where = { job: job.name, from: dayText(window.from), to: dayText(window.to - 1) };
    context.log.warn({ ...where, buckets: placement.unclear }, "usage_buckets_unclear");
    context.progress.note(
      job.name,
      `${countText(placement.unclear, "bucket")} from ${where.from} to ${where.to} could be either of two, or begins where none does, and was left ` +
        "out: the zone's offset in the answer would tell",
    );
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
            ...(window.reachesNow ? { missing: takenForPast(job, answeredAt) } : {}),
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
  const zone = openZone(job.timezone);
  const cursor = readCursor(context, streamOf(job), usageCursor);
  const answeredMs = await readTotals(context);
  const pass = planPass(job.bucketingSize, job.startDate, cursor, dayAt(zone, answeredMs));
  for (const window of pass.windows) {
    const reachesNow = window === pass.windows.at(-1);
    const read = await readWindow(context, zone, { ...window, reachesNow });
    await read.commit(pass.after(window, read.firstOpen));
  }
  log.info({ job: job.name, windows: pass.windows.length, from: dayText(pass.begin) }, "endpoint_usage_read");
}

/** Keeps the usage of every endpoint: totals, and buckets of one size in one time zone. */
export const endpointUsageJob: FeedJobType<EndpointUsageJobConfig> = {
  endpoints: [endpointUsageEndpoint],
  cursorDoc:
    'stream `SIZE ZONE` (`day UTC`): {"from": "2026-01-01", "next": "2026-11-18"}, the first day ever read, and the first one of a bucket that was not final',
  cursor: usageCursor,
  exampleCursor: { from: "2026-01-01", next: "2026-11-18" },
  streams: async (job) => [streamOf(job)],
  // One for the totals, and one for each window.
  forecast({ job, clock, checkpoints }) {
    const cursor = readCursor(
      { job, checkpoints, request: { fullRefresh: false } },
      streamOf(job),
      usageCursor,
    );
    const today = dayAt(openZone(job.timezone), clock.now());
    const { windows } = planPass(job.bucketingSize, job.startDate, cursor, today);
    return { calls: 1 + windows.length, toSend: 0 };
  },
  run,
};
