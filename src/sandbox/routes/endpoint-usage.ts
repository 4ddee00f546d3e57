import { z } from "zod";
import { checkAgainst, parametersOf } from "../http/check-request.ts";
import { type Refusal, refuse } from "../http/outcome.ts";
import { listOf } from "../http/result-list.ts";
import { dayOf } from "../population/calendar.ts";
import { BUCKETING_SIZES, type BucketingSize, fillBuckets } from "../usage/buckets.ts";
import { type LocalTime, localTime } from "../usage/local-time.ts";
import { type CountedCalls, type Counts, sumOf } from "../usage/counts.ts";
import { COUNTED_ENDPOINTS } from "../usage/usage.ts";
import type { World } from "../world.ts";
import { stampText } from "../world-clock.ts";
import type { Route } from "./route.ts";

const date = z
  .string()
  .regex(/^\d{4}-\d\d-\d\d$/, { error: "date_parsing" })
  .refine((text) => new Date(`${text}T00:00:00Z`).toJSON()?.startsWith(text) ?? false, {
    error: "date_parsing",
  });
const request = z.strictObject({
  start_date: date.optional(),
  end_date: date.optional(),
  bucketing_size: z.enum(BUCKETING_SIZES).optional(),
  timezone: z.string().optional(),
  include_unused_endpoints: z
    .string()
    .regex(/^(true|false)$/i, { error: "bool_parsing" })
    .optional(),
});

function check(query: URLSearchParams): Refusal | null {
  const malformed = checkAgainst(request, parametersOf(query), "query");
  if (malformed) return malformed;
  const [start, end] = [query.get("start_date"), query.get("end_date")];
  if ((start === null) !== (end === null)) {
    return refuse(400, "bad_request", "start_date and end_date belong together.");
  }
  if (start !== null && end !== null && start > end) {
    return refuse(400, "bad_request", "start_date lies after end_date.");
  }
  if (!localTime(query.get("timezone") ?? "UTC")) {
    return refuse(400, "bad_request", "timezone is not a time zone.");
  }
  return null;
}

const rate = (part: number, whole: number): number => (whole === 0 ? 0 : Number((part / whole).toFixed(4)));

function countsText({ requests, records, resolvable, matched }: Readonly<Counts>) {
  return {
    total_requests: requests,
    num_input_records: records,
    num_resolvable_records: resolvable,
    num_matches: matched,
  };
}

const dayOfText = (text: string) => dayOf(Date.parse(`${text}T00:00:00Z`));

/** Instants of whole local days. */
function rangeOf(local: LocalTime, start: string, end: string): { fromMs: number; toMs: number } {
  return { fromMs: local.startOfDay(dayOfText(start)), toMs: local.startOfDay(dayOfText(end) + 1) };
}

function lastText(calls: readonly CountedCalls[]): string | null {
  const last = calls.reduce((latest, { atMs }) => Math.max(latest, atMs), Number.NEGATIVE_INFINITY);
  return calls.length === 0 ? null : stampText(Math.floor(last), Math.floor(last) % 997, "z");
}

/** `GET /usage`: usage of the organization, in total or by buckets. */
export const endpointUsageRoute: Route = {
  method: "GET",
  path: "/usage",
  check: ({ query }) => check(query),
  answer(world: World, { organization, query }) {
    const [start, end] = [query.get("start_date"), query.get("end_date")];
    const local = localTime(query.get("timezone") ?? "UTC");
    if (!local) return refuse(400, "bad_request", "timezone is not a time zone.");
    // Both passed the check.
    const size = (query.get("bucketing_size") ?? "day") as BucketingSize;
    const range = start !== null && end !== null ? rangeOf(local, start, end) : null;
    const { fromMs, toMs } = range ?? { fromMs: world.usage.beginMs, toMs: Number.POSITIVE_INFINITY };
    const results = COUNTED_ENDPOINTS.map((endpoint) => {
      const calls = world.usage.calls(organization, endpoint, fromMs, toMs);
      const total = sumOf(calls);
      const buckets = range && [...fillBuckets(size, local, range, calls)];
      return {
        endpoint,
        ...countsText(total),
        overall_match_rate: rate(total.matched, total.records),
        resolvable_match_rate: rate(total.matched, total.resolvable),
        last_requested_at: lastText(calls),
        buckets:
          buckets &&
          buckets.map(([startMs, counts]) => ({ bucket_start: local.text(startMs), ...countsText(counts) })),
      };
    });
    const isUnusedWanted = query.get("include_unused_endpoints")?.toLowerCase() === "true";
    const reported = results
      .filter((result) => isUnusedWanted || result.total_requests > 0)
      .toSorted((a, b) => b.num_matches - a.num_matches || a.endpoint.localeCompare(b.endpoint));
    return { kind: "results", results: listOf(reported.map((result) => JSON.stringify(result))) };
  },
};
