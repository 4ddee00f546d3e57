import { z } from "zod";
import { checkAgainst } from "../http/check-request.ts";
import { listOf } from "../http/result-list.ts";
import type { ChangeResult, Segment, Segments } from "../segments/segments.ts";
import { listIn, type Route } from "./route.ts";
import { noSuchSegment, segmentIdField } from "./segment-query.ts";

const request = z.strictObject({ segment_id: segmentIdField, service_pids: z.array(z.string()) });

/** A path that changes the members of a segment. */
function changeRoute(
  path: string,
  change: (segments: Segments, segment: Segment, pids: readonly string[]) => ChangeResult,
  countsOf: (result: ChangeResult) => Readonly<Record<string, number>>,
): Route {
  return {
    method: "POST",
    path,
    stamp: "z",
    resultsLast: false,
    needsCapacity: false,
    recordsOf: ({ body }) => listIn(body, "service_pids"),
    check: ({ body }) => checkAgainst(request, body),
    answer({ segments }, { organization, body }) {
      // It passed the check.
      const { segment_id, service_pids } = body as z.infer<typeof request>;
      const segment = segments.find(organization, segment_id);
      if (!segment) return noSuchSegment();
      const result = change(segments, segment, service_pids);
      const results = JSON.stringify({
        invalid_service_pids: result.invalid,
        ...countsOf(result),
        new_current_size: segment.members.size,
      });
      return {
        kind: "results",
        results: listOf([]),
        matched: service_pids.length - result.invalid.length,
        billed: 0,
        wrap: (id, completed) => [`{${id},"results":${results}`, `,${completed}}`],
      };
    },
  };
}

/** `POST /v2/segments/members/add`. */
export const addMembersRoute = changeRoute(
  "/v2/segments/members/add",
  (segments, segment, pids) => segments.add(segment, pids),
  ({ changed, redundant }) => ({ n_redundant_additions: redundant, n_added: changed }),
);

/** `POST /v2/segments/members/remove`. */
export const removeMembersRoute = changeRoute(
  "/v2/segments/members/remove",
  (segments, segment, pids) => segments.remove(segment, pids),
  ({ changed }) => ({ n_deleted: changed }),
);
