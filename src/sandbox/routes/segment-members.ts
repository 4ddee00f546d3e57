import { z } from "zod";
import { checkAgainst, parametersOf } from "../http/check-request.ts";
import { writeResults } from "../http/result-list.ts";
import { pageServed } from "../segments/churn.ts";
import { stampText } from "../world-clock.ts";
import type { Route } from "./route.ts";
import { noSuchSegment, segmentIdField } from "./segment-query.ts";

/** Members of one page (section 8). */
export const MEMBERS_PER_PAGE = 5000;
/** An element takes about 90. */
const EXPECTED_BYTES = 100;

const request = z.strictObject({
  segment_id: segmentIdField,
  page: z
    .string()
    .regex(/^[+-]?\d{1,15}$/, { error: "int_parsing" })
    .refine((page) => !(Number(page) < 1), { error: "greater_than_equal" })
    .optional(),
});

/** Instants of members, in microseconds: whole batches share one, so the last text is kept. */
function createStamps(): (us: number) => string {
  let last = Number.NaN;
  let text = "";
  return (us) => {
    if (us === last) return text;
    last = us;
    return (text = stampText(Math.floor(us / 1000), us % 1000, "z"));
  };
}

/** `GET /v2/segments/members`: pages of {@link MEMBERS_PER_PAGE} unless the sandbox was told otherwise, newest first. */
export const segmentMembersRoute: Route = {
  method: "GET",
  path: "/v2/segments/members",
  stamp: "z",
  resultsLast: false,
  needsCapacity: false,
  recordsOf: () => [],
  check: ({ query }) => checkAgainst(request, parametersOf(query), "query"),
  answer(world, { organization, query }) {
    const segment = world.segments.find(organization, query.get("segment_id") ?? "");
    if (!segment) return noSuchSegment();
    const page = Number(query.get("page") ?? 1);
    const { size } = segment.members;
    const perPage = world.membersPerPage;
    const members = segment.members.list((page - 1) * perPage, perPage);
    const stampOf = createStamps();
    const results = writeResults(members.length * EXPECTED_BYTES);
    for (const { pid, firstAddedUs } of members) {
      results.add(
        `{"service_pid":"${world.segments.pidText(pid)}","first_added_at":"${stampOf(firstAddedUs)}"}`,
      );
    }
    pageServed(world, segment);
    const listContinues = page * perPage < size;
    return {
      kind: "results",
      results: results.finish(),
      matched: 0,
      billed: 0,
      wrap: (id, completed) => [
        `{${id},"results":{"items":[`,
        `],"total_count":${size},"page":${page},"list_continues":${listContinues}},${completed}}`,
      ],
    };
  },
};
