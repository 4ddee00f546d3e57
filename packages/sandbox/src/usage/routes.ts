import { z } from "zod";
import { listBody, type Refusal, refuse } from "../http/answer.ts";
import { checkQuery, integerText, type Route } from "../http/route.ts";
import { DAY_MS, dayOf, dayText } from "../population/calendar.ts";
import { hashText } from "../population/hash.ts";
import { stampText } from "../clock.ts";
import type { World } from "../world.ts";
import { BUCKETING_SIZES, type BucketingSize, fillBuckets, type LocalTime, localTime } from "./local-time.ts";
import { type CountedCalls, COUNTED_ENDPOINTS, sumOf } from "./usage.ts";

const date = z
  .string()
  .regex(/^\d{4}-\d\d-\d\d$/, { error: "date_parsing" })
  .refine((text) => new Date(`${text}T00:00:00Z`).toJSON()?.startsWith(text) ?? false, {
    error: "date_parsing",
  });
const endpointRequest = z.strictObject({
  start_date: date.optional(),
  end_date: date.optional(),
  bucketing_size: z.enum(BUCKETING_SIZES).optional(),
  timezone: z.string().optional(),
  include_unused_endpoints: z
    .string()
    .regex(/^(true|false)$/i, { error: "bool_parsing" })
    .optional(),
});

const bad = (message: string): Refusal => refuse(400, "bad_request", message);

function checkUsage(query: URLSearchParams): Refusal | null {
  const malformed = checkQuery(endpointRequest, query);
  if (malformed) return malformed;
  const [start, end] = [query.get("start_date"), query.get("end_date")];
  if ((start === null) !== (end === null)) return bad("start_date and end_date belong together.");
  if (start !== null && end !== null && start > end) return bad("start_date lies after end_date.");
  return localTime(query.get("timezone") ?? "UTC") ? null : bad("timezone is not a time zone.");
}

const rate = (part: number, whole: number): number => (whole === 0 ? 0 : Number((part / whole).toFixed(4)));

function countsOf({ requests, records, resolvable, matched }: ReturnType<typeof sumOf>) {
  return {
    total_requests: requests,
    num_input_records: records,
    num_resolvable_records: resolvable,
    num_matches: matched,
  };
}

const dayOfText = (text: string): number => dayOf(Date.parse(`${text}T00:00:00Z`));

/** Instants of whole local days, both inclusive; null without dates. */
function rangeOf(local: LocalTime, start: string | null, end: string | null) {
  if (start === null || end === null) return null;
  return { fromMs: local.startOfDay(dayOfText(start)), toMs: local.startOfDay(dayOfText(end) + 1) };
}

function lastText(calls: readonly CountedCalls[]): string | null {
  const last = calls.reduce((latest, { atMs }) => Math.max(latest, atMs), Number.NEGATIVE_INFINITY);
  return calls.length === 0 ? null : stampText(Math.floor(last), Math.floor(last) % 997, "z");
}

/** `GET /usage`: usage of the organization, in total or by buckets. */
const endpointUsageRoute: Route = {
  method: "GET",
  path: "/usage",
  check: ({ query }) => checkUsage(query),
  answer({ usage }, { organization, query }) {
    const local = localTime(query.get("timezone") ?? "UTC");
    if (!local) return bad("timezone is not a time zone.");
    // It passed the check.
    const size = (query.get("bucketing_size") ?? "day") as BucketingSize;
    const range = rangeOf(local, query.get("start_date"), query.get("end_date"));
    const { fromMs, toMs } = range ?? { fromMs: usage.beginMs, toMs: Number.POSITIVE_INFINITY };
    const results = COUNTED_ENDPOINTS.map((endpoint) => {
      const calls = usage.calls(organization, endpoint, fromMs, toMs);
      const total = sumOf(calls);
      const buckets = range && [...fillBuckets(size, local, range, calls)];
      return {
        endpoint,
        ...countsOf(total),
        overall_match_rate: rate(total.matched, total.records),
        resolvable_match_rate: rate(total.matched, total.resolvable),
        last_requested_at: lastText(calls),
        buckets:
          buckets &&
          buckets.map(([startMs, counts]) => ({ bucket_start: local.text(startMs), ...countsOf(counts) })),
      };
    });
    const isUnusedWanted = query.get("include_unused_endpoints")?.toLowerCase() === "true";
    const reported = results
      .filter((result) => isUnusedWanted || result.total_requests > 0)
      .toSorted((a, b) => b.num_matches - a.num_matches || a.endpoint.localeCompare(b.endpoint));
    return { kind: "results", items: reported.map((result) => JSON.stringify(result)) };
  },
};

const searchUsageRequest = z.strictObject({ days: integerText(1, 90).optional() });

function organizationId(seed: number, organization: string): string {
  const digits = hashText(`${seed} ${organization}`)
    .map((word) => word.toString(16).padStart(8, "0"))
    .join("");
  return `${digits.slice(0, 8)}-${digits.slice(8, 12)}-4${digits.slice(13, 16)}-8000-${digits.slice(0, 12)}`;
}

/** Person searches of a UTC day: requests are searches, records are those delivered. */
function dailyRow({ usage }: World, organization: string, day: number) {
  const sum = sumOf(usage.calls(organization, "person-search/v0/search", day * DAY_MS, (day + 1) * DAY_MS));
  return {
    period_start: dayText(day),
    records_delivered: sum.records,
    searches_created: sum.requests,
    parse_requests: sum.requests + Math.floor(sum.resolvable / 100),
  };
}

/** Records delivered to an organization on this UTC day. */
export function deliveredToday(world: World, organization: string): number {
  return dailyRow(world, organization, world.clock.today()).records_delivered;
}

/** `GET /person-search/v0/usage`: today's quota, and the last UTC days in order. */
const searchUsageRoute: Route = {
  method: "GET",
  path: "/person-search/v0/usage",
  check: ({ query }) => checkQuery(searchUsageRequest, query),
  answer(world, { organization, query }) {
    const days = Number(query.get("days") ?? 30);
    const today = world.clock.today();
    const rows = Array.from({ length: days }, (_, i) => dailyRow(world, organization, today - days + 1 + i));
    const delivered = rows.at(-1)?.records_delivered ?? 0;
    const { dailyRecordLimit } = world.searches;
    const quota = {
      org_id: organizationId(world.seed, organization),
      daily_record_limit: dailyRecordLimit,
      current_day_records_delivered: delivered,
      current_day_remaining: Math.max(0, dailyRecordLimit - delivered),
    };
    return listBody(
      quota,
      "history",
      rows.map((row) => JSON.stringify(row)),
    );
  },
};

export const usageRoutes: readonly Route[] = [endpointUsageRoute, searchUsageRoute];
