import { firstOpenSearchDay } from "../../load/feeds/searches.ts";
import { z } from "zod";
import type { JobOf } from "../../config/config.ts";
import { jobSettings } from "../../config/schema/jobs.ts";
import { fromEnvelope } from "../../extract/free-call.ts";
import { cursorDay } from "../../load/write/commit.ts";
import { type Cell, type DriftLog, instantAt } from "../../schemas/convert.ts";
import { hasError } from "../../schemas/error-body.ts";
import { extraCell, flattenerOf, type JsonObject } from "../../schemas/flatten.ts";
import {
  DAYS_UNTIL_FINAL,
  readOrganization,
  SEARCH_USAGE_DAYS,
  searchUsageEndpoint,
  searchUsageRecord,
} from "../../schemas/usage.ts";
import type { FeedContext, FeedJobType } from "../feed.ts";
import { DAY_MS, dayNumber, dayText } from "./calendar.ts";

const settings = jobSettings("search_usage", {});
type SearchUsageJobConfig = JobOf<typeof settings>;

const STREAM = "history";

const cursorSchema = z.object({
  /** First day that was not final when it was last read, `YYYY-MM-DD`. */
  next: cursorDay,
});

const record = flattenerOf(searchUsageRecord);
const [, ...quotaColumns] = record.fieldNames;
const [, ...dayColumns] = Object.keys(searchUsageRecord.lists.history.fields);

/** Response: cells in column order. */
interface Answer {
  readonly orgId: string;
  /** Cells of {@link quotaColumns} and `_extra`. */
  readonly quota: readonly Cell[];
  /** Cells of {@link dayColumns}, by day. */
  readonly days: readonly {
    readonly day: number;
    readonly cells: readonly Cell[];
    readonly extra: Cell;
  }[];
}

/** Null for a body without an organization or a history, or with an empty history and an error. */
function readAnswer(body: JsonObject, drift: DriftLog): Answer | null {
  const { api_request_id: _id, request_completed_at: _at, ...result } = body;
  const { object, lists } = record.flatten(result, "", drift);
  const [organization, ...quota] = object.cells.map((cell) => cell ?? null);
  const orgId = readOrganization(organization);
  if (orgId === null) return null;
  const [history] = lists;
  if (!history || (history.rows.length === 0 && hasError(body))) return null;
  const days = history.rows.flatMap(([, , day = null, ...cells]) => {
    const extra = cells.pop() ?? null;
    return day === null ? [] : [{ day: dayNumber(day), cells, extra }];
  });
  return { orgId, quota: [...quota, extraCell(object.extra)], days };
}

async function run(context: FeedContext<SearchUsageJobConfig>): Promise<void> {
  const { job, log, db } = context;
  const reply = await context.call({
    endpoint: searchUsageEndpoint,
    // The whole history each time, so that no day is missed and late counts are included.
    path: `${searchUsageEndpoint.path}?days=${SEARCH_USAGE_DAYS}`,
    read: fromEnvelope(readAnswer),
  });
  if (reply.kind === "refused") throw reply.stop;
  const { value: answer, drift } = reply;
  const receivedMs = context.clock.now();
  const { orgId, quota } = answer;
  const today = Math.floor(receivedMs / DAY_MS);
  const firstOpen = today - DAYS_UNTIL_FINAL;
  const days = answer.days.filter(({ day }) => day <= today);
  // Compares stored days, not the checkpoint, so that a reset or a renamed job finds the same gap.
  const next = await firstOpenSearchDay(db, orgId, dayText(today));
  const oldest = Math.min(today - SEARCH_USAGE_DAYS + 1, ...days.map(({ day }) => day));
  const hasGap = next !== null && dayNumber(next) < oldest;
  if (hasGap) {
    log.warn({ job: job.name, from: next, to: dayText(oldest - 1) }, "usage_no_longer_readable");
  }
  const observedAt = instantAt(receivedMs);
  await context.commit({
    drift: drift.entries(),
    counters: { records_received: days.length },
    upserts: [
      {
        table: "person_search_quota",
        columns: ["org_id", "observed_at", ...quotaColumns, "_extra"],
        rows: [[orgId, observedAt, ...quota]],
      },
      {
        table: "person_search_usage_daily",
        columns: ["org_id", "period_start", ...dayColumns, "is_final", "_extra"],
        rows: days.map(({ day, cells, extra }) => [
          orgId,
          dayText(day),
          ...cells,
          String(day < firstOpen),
          extra,
        ]),
      },
      {
        table: "sync_gap",
        columns: ["job", "stream", "gap_start", "gap_end", "noticed_at"],
        rows: hasGap
          ? [[job.name, STREAM, `${next}T00:00:00Z`, `${dayText(oldest)}T00:00:00Z`, observedAt]]
          : [],
        along: ["noticed_at"],
      },
    ],
    checkpoints: [{ stream: STREAM, cursor: { next: dayText(firstOpen) } }],
  });
  log.info({ job: job.name, days: days.length }, "search_usage_read");
}

/** Reads the organization's usage of person search: one call for the last 90 days. */
export const searchUsageJob: FeedJobType<SearchUsageJobConfig> = {
  type: "search_usage",
  settings,
  isBilled: false,
  endpoints: [searchUsageEndpoint],
  writes: ["person_search_quota", "person_search_usage_daily"],
  checkpoints: {
    meaning:
      'stream `history`: {"next": "2026-11-18"}, the first day that was not final. Informational: every run reads all 90 days',
    cursor: cursorSchema,
    example: { next: "2026-11-18" },
    streams: async () => [STREAM],
    noStream: "",
  },
  plannedCalls: () => ({ least: 1, more: "" }),
  run,
};
