import { z } from "zod";
import { refuse, textsOf } from "../http/answer.ts";
import { integerText, type Route, route } from "../http/route.ts";
import { DAY_MS, dayText, stampText } from "../population/calendar.ts";
import { hashText } from "../population/hash.ts";
import type { World } from "../world.ts";
import { BUCKETING_SIZES, fillBuckets, localTime } from "./local-time.ts";
import { type CountedCalls, COUNTED_ENDPOINTS, sumOf } from "./usage.ts";

const date = z
  .string()
  .regex(/^\d{4}-\d\d-\d\d$/, { error: "date_parsing" })
  .refine((text) => new Date(`${text}T00:00:00Z`).toJSON()?.startsWith(text) ?? false, {
    error: "date_parsing",
  });

const dayNumber = (text: string): number => Date.parse(`${text}T00:00:00Z`) / DAY_MS;

const bad = (message: string) => refuse(400, "bad_request", message);

const rate = (part: number, whole: number): number => (whole === 0 ? 0 : Number((part / whole).toFixed(4)));

function countsOf({ requests, records, resolvable, matched }: ReturnType<typeof sumOf>) {
  return {
    total_requests: requests,
    num_input_records: records,
    num_resolvable_records: resolvable,
    num_matches: matched,
  };
}

function lastText(calls: readonly CountedCalls[]): string | null {
  const last = Math.floor(calls.reduce((latest, { atMs }) => Math.max(latest, atMs), 0));
  return calls.length === 0 ? null : stampText(last, last % 997);
}

/** `GET /usage`: usage of the organization, in total or by buckets. */
const endpointUsageRoute = route({
  method: "GET",
  path: "/usage",
  query: z.strictObject({
    start_date: date.optional(),
    end_date: date.optional(),
    bucketing_size: z.enum(BUCKETING_SIZES).default("day"),
    timezone: z.string().default("UTC"),
    include_unused_endpoints: z
      .string()
      .regex(/^(true|false)$/i, { error: "bool_parsing" })
      .default("false"),
  }),
  answer({ usage }, { organization, query }) {
    const { start_date: start, end_date: end, bucketing_size: size, timezone } = query;
    if ((start === undefined) !== (end === undefined)) return bad("start_date and end_date belong together.");
    if (start !== undefined && end !== undefined && start > end)
      return bad("start_date lies after end_date.");
    const local = localTime(timezone);
    if (!local) return bad("timezone is not a time zone.");
    const fromMs = start === undefined ? usage.beginMs : local.startOfDay(dayNumber(start));
    const toMs = end === undefined ? Number.POSITIVE_INFINITY : local.startOfDay(dayNumber(end) + 1);
    const results = COUNTED_ENDPOINTS.map((endpoint) => {
      const calls = usage.calls(organization, endpoint, fromMs, toMs);
      const total = sumOf(calls);
      const buckets = end === undefined ? null : [...fillBuckets(size, local, { fromMs, toMs }, calls)];
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
    const isUnusedWanted = query.include_unused_endpoints.toLowerCase() === "true";
    const reported = results
      .filter((result) => isUnusedWanted || result.total_requests > 0)
      .toSorted((a, b) => b.num_matches - a.num_matches || a.endpoint.localeCompare(b.endpoint));
    return { kind: "results", results: textsOf(reported) };
  },
});

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
const searchUsageRoute = route({
  method: "GET",
  path: "/person-search/v0/usage",
  query: z.strictObject({ days: integerText(1, 90).default(30) }),
  answer(world, { organization, query: { days } }) {
    const first = world.clock.today() - days + 1;
    const delivered = deliveredToday(world, organization);
    const { dailyRecordLimit } = world.searches;
    return {
      kind: "results",
      results: textsOf(Array.from({ length: days }, (_, i) => dailyRow(world, organization, first + i))),
      body: (history) => ({
        org_id: organizationId(world.seed, organization),
        daily_record_limit: dailyRecordLimit,
        current_day_records_delivered: delivered,
        current_day_remaining: Math.max(0, dailyRecordLimit - delivered),
        history,
      }),
    };
  },
});

export const usageRoutes: readonly Route[] = [endpointUsageRoute, searchUsageRoute];
