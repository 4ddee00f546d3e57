import { timestamptz } from "./field.ts";
import { column, type Table, table } from "./table.ts";

/** Fields of one element of `items` (section 2.3) beside the PID. */
export const memberFields = {
  first_added_at: timestamptz(
    "none",
    "When the person first became a member, by the service; stays when it is removed and added again.",
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

/** The segments of the configuration. */
export const segment: Table = table("segment", {
  schema: "data",
  doc: "The segments that jobs read or fill.",
  key: ["segment_id"],
  people: "nobody",
  columns: [
    segmentId,
    column("name", "text", "none", "Name in the configuration; null where it gives none."),
    column("description", "text", "none", "Description in the configuration."),
    column("current_size", "integer", "none", "Members, as the service last said."),
    column("source", "text", "none", "`api` for one that a job has made; null where it can't be read."),
    column(
      "last_checked_at",
      "timestamptz",
      "none",
      "When its size was last compared with the known members.",
    ),
    column(
      "last_complete_sync_at",
      "timestamptz",
      "none",
      "When all pages were last read and nothing was left unproven.",
    ),
  ],
});

/** Who is, or was, a member. */
export const segmentMember: Table = table("segment_member", {
  schema: "data",
  doc: "Everybody who was ever seen in a segment, and whether they still are.",
  key: ["segment_id", "service_pid"],
  people: { pids: ["service_pid"] },
  columns: [
    segmentId,
    servicePid,
    column("first_added_at", "timestamptz", "none", memberFields.first_added_at.doc),
    column("is_member", "boolean", "none", "Whether the person is a member, as last seen or proven.", true),
    column("first_seen_at", "timestamptz", "none", "When the person was first seen in the segment.", true),
    column(
      "removed_seen_at",
      "timestamptz",
      "none",
      "When the person was proven to be gone; null while a member.",
    ),
  ],
  hasExtra: true,
});

/** Every interval of membership, as seen. */
export const segmentMembershipHistory: Table = table("segment_membership_history", {
  schema: "data",
  doc: "Every interval of membership as it was seen; those of one person in one segment never overlap.",
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
      "When the person was proven to be gone (exclusive); null for the present.",
    ),
    column(
      "valid_from_basis",
      "text",
      "none",
      "`vendor`: `first_added_at`; `observed`: the answer in which the person was there again.",
      true,
    ),
  ],
});

/** What each run found of each segment. */
export const segmentSync: Table = table("segment_sync", {
  schema: "ops",
  doc: "What each run found of each segment.",
  key: ["segment_id", "run_id"],
  columns: [
    segmentId,
    column("run_id", "text", "none", "The run."),
    column(
      "observed_at",
      "timestamptz",
      "none",
      "When the service last said how large the segment is.",
      true,
    ),
    column("current_size", "integer", "none", "Members, as the service said.", true),
    column("known_members", "integer", "none", "Members that stand in `segment_member` after the run.", true),
    column("added", "integer", "none", "People found who were no known members.", true),
    column("removed", "integer", "none", "Members proven to be gone.", true),
    column(
      "removals_pending",
      "integer",
      "none",
      "Known members that were not seen, and not proven to be gone.",
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
