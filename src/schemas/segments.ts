import { timestamptz } from "./field.ts";
import { column, type Table, table } from "./table.ts";

/** Fields of one item (section 2.3) except the PID. */
export const memberFields = {
  first_added_at: timestamptz(
    "none",
    "First addition of the person, as stated by the service; kept if it is removed and added again.",
  ),
};

/** Calls of section 4.6. */
export const segmentEndpoints = {
  create: { name: "POST /v2/segments/create", method: "POST", path: "/v2/segments/create" },
  members: { name: "GET /v2/segments/members", method: "GET", path: "/v2/segments/members" },
  add: { name: "POST /v2/segments/members/add", method: "POST", path: "/v2/segments/members/add" },
  remove: { name: "POST /v2/segments/members/remove", method: "POST", path: "/v2/segments/members/remove" },
} as const;

const segmentId = column("segment_id", "text", "none", "The segment.");
const servicePid = column("service_pid", "text", "direct", "PID of the person.");

/** Segments that jobs read or fill. */
export const segment: Table = table("segment", {
  schema: "data",
  doc: "Segments that jobs read or fill.",
  key: ["segment_id"],
  people: "nobody",
  columns: [
    segmentId,
    column("name", "text", "none", "Name in the configuration; null for none."),
    column("description", "text", "none", "Description in the configuration."),
    column("current_size", "integer", "none", "Number of members as last stated by the service."),
    column(
      "source",
      "text",
      "none",
      "`api` if a job created it; else null, since the interface has no way to read it.",
    ),
    column("last_checked_at", "timestamptz", "none", "Last comparison of its size with the known members."),
    column(
      "last_complete_sync_at",
      "timestamptz",
      "none",
      "Begin of the last reading that listed every member and left no removal pending.",
    ),
  ],
});

/** Present and former members. */
export const segmentMember: Table = table("segment_member", {
  schema: "data",
  doc: "Everybody ever seen in a segment, and whether they are still members.",
  key: ["segment_id", "service_pid"],
  people: { pids: ["service_pid"] },
  columns: [
    segmentId,
    servicePid,
    column("first_added_at", "timestamptz", "none", memberFields.first_added_at.doc),
    column("is_member", "boolean", "none", "True for a member, as last seen or proven.", true),
    column("first_seen_at", "timestamptz", "none", "First response that listed the person.", true),
    column("removed_seen_at", "timestamptz", "none", "Response that proved the removal; null for a member."),
  ],
  hasExtra: true,
});

/** Intervals of membership. */
export const segmentMembershipHistory: Table = table("segment_membership_history", {
  schema: "data",
  doc: "Intervals of membership as seen; those of one person in one segment never overlap.",
  key: ["segment_id", "service_pid", "valid_from"],
  people: { pids: ["service_pid"] },
  columns: [
    segmentId,
    servicePid,
    column("valid_from", "timestamptz", "none", "Begin (inclusive)."),
    column(
      "valid_to",
      "timestamptz",
      "none",
      "Response that proved the removal (exclusive); null for the present.",
    ),
    column(
      "valid_from_basis",
      "text",
      "none",
      "`vendor`: `first_added_at`; `observed`: response that listed the person again.",
      true,
    ),
  ],
});

/** Results of the readings of segments. */
export const segmentSync: Table = table("segment_sync", {
  schema: "ops",
  doc: "Result of each run for each segment.",
  key: ["segment_id", "run_id"],
  columns: [
    segmentId,
    column("run_id", "text", "none", "The run."),
    column("observed_at", "timestamptz", "none", "Time of the newest response.", true),
    column("current_size", "integer", "none", "Number of members as stated by the service.", true),
    column("known_members", "integer", "none", "Members in `segment_member` after the run.", true),
    column("added", "integer", "none", "People listed who were no known members.", true),
    column("removed", "integer", "none", "Members whose removal was proven.", true),
    column(
      "removals_pending",
      "integer",
      "none",
      "Known members that were not listed and whose removal is not proven.",
      true,
    ),
  ],
});

/** PIDs that a push job compares with its segment. */
export const segmentPushMember: Table = table("segment_push_member", {
  schema: "state",
  doc: "State of each PID of a segment_push job.",
  people: { pids: ["service_pid"] },
  key: ["job", "segment_id", "service_pid"],
  columns: [
    column("job", "text", "none", "The job."),
    segmentId,
    servicePid,
    column("is_wanted", "boolean", "none", "The query returns the PID.", true),
    column(
      "state",
      "text",
      "none",
      "`absent`; `member`; `invalid`: the service doesn't know the PID; `unknown`: a call about it got no answer yet.",
      true,
    ),
    column(
      "is_own",
      "boolean",
      "none",
      "The job made it a member, so that `mirror` may remove it; null if in doubt.",
    ),
    column("run_id", "text", "none", "Run that last changed this row.", true),
  ],
});

/** Members listed by the reading under way. */
export const segmentListed: Table = table("segment_listed", {
  schema: "state",
  doc: "Members that the current reading of a segment has listed; removed at its end.",
  people: { pids: ["service_pid"] },
  key: ["job", "segment_id", "service_pid"],
  columns: [column("job", "text", "none", "The reading job."), segmentId, servicePid],
});
