import { z } from "zod";
import type { SearchUsageJobConfig } from "../../config/config.ts";
import { readEnvelope } from "../../extract/free-call.ts";
import { cursorDay } from "../../load/inputs/cursor-values.ts";
import type { Cell } from "../../schemas/convert.ts";
import { DriftLog } from "../../schemas/drift.ts";
import { tellsError } from "../../schemas/error-body.ts";
import { extraCell, flattenerOf, type JsonObject } from "../../schemas/flatten.ts";
import {
  DAYS_UNTIL_FINAL,
  SEARCH_USAGE_DAYS,
  searchUsageEndpoint,
  searchUsageRecord,
} from "../../schemas/usage.ts";
import type { FeedContext, FeedJobType } from "../feed-type.ts";
import { dayNumber, dayText } from "./natural-buckets.ts";
import { readCursor } from "../read-cursor.ts";

const { name: endpoint, method, path } = searchUsageEndpoint;
/** The one stream of the job. */
const STREAM = "history";

const cursorSchema = z.object({
  /** First day whose counts were not final when it was last read, `YYYY-MM-DD`. */
  next: cursorDay,
});

const record = flattenerOf(searchUsageRecord);
const [, ...quotaColumns] = record.fieldNames;
const [, ...dayColumns] = Object.keys(searchUsageRecord.lists.history.fields);

/** What an answer gives, as cells in the order of their columns. */
interface Answer {
  readonly orgId: string;
  /** Of {@link quotaColumns} and `_extra`. */
  readonly quota: readonly Cell[];
  /** Of {@link dayColumns}, by day. */
  readonly days: readonly {
    readonly day: number;
    readonly cells: readonly Cell[];
    readonly extra: Cell;
  }[];
}

/** Null for an answer without an organization, of which nothing could be kept, and for one that doesn't state its history. */
function readAnswer(body: JsonObject, drift: DriftLog): Answer | null {
  const { api_request_id: _id, request_completed_at: _at, ...result } = body;
  const { object, lists } = record.flatten(result, "", drift);
  const [orgId, ...quota] = object.cells.map((cell) => cell ?? null);
  if (orgId === undefined || orgId === null || orgId === "") return null;
  const [history] = lists;
  if (!history || (history.rows.length === 0 && tellsError(body))) return null;
  const days = history.rows.flatMap(([, , day = null, ...cells]) => {
    const extra = cells.pop() ?? null;
    return day === null ? [] : [{ day: dayNumber(day), cells, extra }];
  });
  return { orgId, quota: [...quota, extraCell(object.extra)], days };
}

const instant = (day: number): string => `${dayText(day)}T00:00:00+00:00`;

async function run(context: FeedContext<SearchUsageJobConfig>): Promise<void> {
  const { job, log, outage, progress, warehouse } = context;
  const cursor = readCursor(context, STREAM, cursorSchema);
  let drift = new DriftLog(endpoint);
  const reply = await context.call({
    endpoint,
    method,
    // All that there is, each time: so no day is missed and late counts are seen, for one small answer.
    path: `${path}?days=${SEARCH_USAGE_DAYS}`,
    body: null,
    read(bytes) {
      drift = new DriftLog(endpoint);
      const body = readEnvelope(bytes, drift);
      return body && readAnswer(body, drift);
    },
  });
  if (reply.kind === "refused") throw new Error("a call without expected refusals was refused");
  const { orgId, quota, days } = reply.value;
  const numbers = days.map(({ day }) => day);
  // The service's own today: the answer has no other time in it, and our clock may be another.
  const today = numbers.length === 0 ? null : Math.max(...numbers);
  const firstOpen = today === null ? null : today - DAYS_UNTIL_FINAL;
  const oldest = numbers.length === 0 ? null : Math.min(...numbers);
  const known = await outage.outlast(() => warehouse.readOrganization());
  const isOther = known !== null && known !== orgId;
  if (isOther) {
    log.warn({ job: job.name, organization: orgId, known }, "other_organization");
    progress.note(
      job.name,
      `the service answered for organization ${orgId}, but this warehouse was filled from ${known}: whose API key is this?`,
    );
  }
  // What is stored tells it, whatever became of the checkpoint; that is asked where somebody has removed the rows.
  const stored =
    today === null ? null : await outage.outlast(() => warehouse.firstOpenSearchDay(orgId, dayText(today)));
  const next = stored ?? (isOther ? null : (cursor?.next ?? null));
  const gap =
    next !== null && oldest !== null && dayNumber(next) < oldest
      ? { start: dayNumber(next), end: oldest }
      : null;
  if (gap) {
    const gone = { job: job.name, from: dayText(gap.start), to: dayText(gap.end - 1) };
    log.warn(gone, "usage_not_readable_any_more");
  }
  await context.commit({
    ...(known === null ? { organization: orgId } : {}),
    drift: drift.entries(),
    counters: { records_received: days.length },
    upserts: [
      {
        table: "person_search_quota",
        columns: ["org_id", "observed_at", ...quotaColumns, "_extra"],
        rows: [[orgId, reply.answeredAt, ...quota]],
      },
      {
        table: "person_search_usage_daily",
        columns: ["org_id", "period_start", ...dayColumns, "is_final", "_extra"],
        rows: days.map(({ day, cells, extra }) => [
          orgId,
          dayText(day),
          ...cells,
          String(firstOpen !== null && day < firstOpen),
          extra,
        ]),
      },
      ...(gap
        ? [
            {
              table: "sync_gap",
              columns: ["job", "stream", "gap_start", "gap_end", "noticed_at"],
              rows: [[job.name, STREAM, instant(gap.start), instant(gap.end), reply.answeredAt]],
              along: ["noticed_at"],
            },
          ]
        : []),
    ],
    checkpoints: firstOpen === null ? [] : [{ stream: STREAM, cursor: { next: dayText(firstOpen) } }],
  });
  log.info({ job: job.name, days: days.length }, "search_usage_read");
}

/** Keeps what the organization used of person search: one call for the last 90 days. */
export const searchUsageJob: FeedJobType<SearchUsageJobConfig> = {
  endpoints: [searchUsageEndpoint],
  cursorDoc:
    'stream `history`: {"next": "2026-11-18"}, the first day whose counts were not final. Which days were missed is told by those that are stored',
  cursor: cursorSchema,
  exampleCursor: { next: "2026-11-18" },
  streams: async () => [STREAM],
  forecast: () => ({ calls: 1, toSend: 0 }),
  run,
};
