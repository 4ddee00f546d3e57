import { z } from "zod";
import { checkAgainst, parametersOf } from "../http/check-request.ts";
import { listOf } from "../http/result-list.ts";
import { DAY_MS, dayText } from "../population/calendar.ts";
import { hashText } from "../population/hash.ts";
import { sumOf } from "../usage/counts.ts";
import type { World } from "../world.ts";
import type { Route } from "./route.ts";

/** Subject of its counts: requests are searches, records are those delivered. */
const PERSON_SEARCH = "person-search/v0/search";

const request = z.strictObject({
  days: z
    .string()
    .regex(/^[+-]?\d{1,15}$/, { error: "int_parsing" })
    .refine((days) => !(Number(days) < 1), { error: "greater_than_equal" })
    .refine((days) => !(Number(days) > 90), { error: "less_than_equal" })
    .optional(),
});

function organizationId(seed: number, organization: string): string {
  const digits = hashText(`${seed} ${organization}`)
    .map((word) => word.toString(16).padStart(8, "0"))
    .join("");
  return `${digits.slice(0, 8)}-${digits.slice(8, 12)}-4${digits.slice(13, 16)}-8000-${digits.slice(0, 12)}`;
}

function dailyRow(world: World, organization: string, day: number) {
  const sum = sumOf(world.usage.calls(organization, PERSON_SEARCH, day * DAY_MS, (day + 1) * DAY_MS));
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
export const personSearchUsageRoute: Route = {
  method: "GET",
  path: "/person-search/v0/usage",
  check: ({ query }) => checkAgainst(request, parametersOf(query), "query"),
  answer(world, { organization, query }) {
    const days = Number(query.get("days") ?? 30);
    const today = world.clock.today();
    const rows = Array.from({ length: days }, (_, i) => dailyRow(world, organization, today - days + 1 + i));
    const delivered = rows.at(-1)?.records_delivered ?? 0;
    const { dailyRecordLimit } = world.searches;
    const quota = JSON.stringify({
      org_id: organizationId(world.seed, organization),
      daily_record_limit: dailyRecordLimit,
      current_day_records_delivered: delivered,
      current_day_remaining: Math.max(0, dailyRecordLimit - delivered),
    });
    return {
      kind: "results",
      results: listOf(rows.map((row) => JSON.stringify(row))),
      wrap: () => [`${quota.slice(0, -1)},"history":[`, "]}"],
    };
  },
};
