import { boolean, date, integer, json, numeric, oneOf, prefixed, text, timestamptz } from "./field.ts";
import { endpointOf } from "./answer.ts";
import { table } from "./table.ts";

/** Fields of one item (section 2.3), without the PID. */
const memberFields = {
  first_added_at: timestamptz(
    "none",
    "When the service first added the person; kept when the person is removed and added again.",
  ),
};

/** Endpoints of section 4.6. */
export const segmentEndpoints = {
  create: endpointOf("POST", "/v2/segments/create"),
  members: endpointOf("GET", "/v2/segments/members"),
  add: endpointOf("POST", "/v2/segments/members/add"),
  remove: endpointOf("POST", "/v2/segments/members/remove"),
};

const segmentId = { segment_id: text("none", "ID of the segment.") };

const servicePid = { service_pid: text("direct", "PID of the person.") };

export const segment = table("segment", {
  schema: "data",
  doc: "Segments that jobs read or fill.",
  key: ["segment_id"],
  people: "nobody",
  columns: {
    ...segmentId,
    name: text("none", "Name in the configuration; null for none."),
    description: text("none", "Description in the configuration."),
    current_size: integer("none", "Number of members last reported by the service."),
    source: text("none", "`api` if a job created it, otherwise null."),
    is_configured: boolean(
      "none",
      "False once its `segment_push` job fills another segment, until a job fills this one again or reads its members.",
    ),
    last_checked_at: timestamptz("none", "When its size was last compared with the known members."),
    last_complete_sync_at: timestamptz(
      "none",
      "Start of the last pass that listed every member and left no removal pending.",
    ),
  },
});

export const segmentMember = table("segment_member", {
  schema: "data",
  doc: "Current and former members of segments.",
  key: ["segment_id", "service_pid"],
  people: { pids: ["service_pid"] },
  columns: {
    ...segmentId,
    ...servicePid,
    ...memberFields,
    is_member: boolean("none", "True for a current member.", "required"),
    first_seen_at: timestamptz("none", "When a response first listed the person.", "required"),
    removed_seen_at: timestamptz("none", "When a response confirmed the removal; null for a member."),
  },
  hasExtra: true,
});

export const segmentMembershipHistory = table("segment_membership_history", {
  schema: "data",
  doc: "Observed intervals of membership; those of one person in one segment never overlap.",
  key: ["segment_id", "service_pid", "valid_from"],
  people: { pids: ["service_pid"] },
  columns: {
    ...segmentId,
    ...servicePid,
    valid_from: timestamptz("none", "Start (inclusive)."),
    valid_to: timestamptz(
      "none",
      "When a response confirmed the removal (exclusive); null for a current member.",
    ),
    valid_from_basis: oneOf(
      ["vendor", "observed"],
      "`vendor`: `first_added_at`; `observed`: the first response that listed the person again.",
      "required",
    ),
  },
});

export const segmentSync = table("segment_sync", {
  schema: "ops",
  doc: "Result of each run for each segment that it reads or fills.",
  key: ["segment_id", "run_id"],
  columns: {
    ...segmentId,
    run_id: text("none", "The run."),
    observed_at: timestamptz("none", "Time of the newest response.", "required"),
    current_size: integer("none", "Number of members reported by the service; null if a push got none."),
    known_members: integer(
      "none",
      "Members in `segment_member` after the run; null if the run did not read them.",
    ),
    added: integer(
      "none",
      "People who joined: newly listed members, and those that a push added after the last reading.",
      "required",
    ),
    removed: integer(
      "none",
      "People who left: members with a confirmed removal, and those that a push removed after the last reading.",
      "required",
    ),
    removals_pending: integer(
      "none",
      "Known members that were not listed, without a confirmed removal; null if the run did not read them.",
    ),
    sent: integer("none", "PIDs that a push sent to be added; null without a push, like the next four."),
    push_added: integer("none", "People that the push added, as the service counts them."),
    redundant: integer("none", "PIDs of the push that were members already, as the service counts them."),
    push_removed: integer("none", "People that the push removed, as the service counts them."),
    unknown: integer("none", "PIDs of the push that the service does not have; `reject` lists them."),
  },
});

export const segmentPushMember = table("segment_push_member", {
  schema: "state",
  doc: "State of each PID of a segment_push job.",
  people: { pids: ["service_pid"] },
  key: ["job", "segment_id", "service_pid"],
  columns: {
    job: text("none", "The job."),
    ...segmentId,
    ...servicePid,
    is_wanted: boolean("none", "True if the query returns the PID.", "required"),
    state: text(
      "none",
      "`absent`; `member`; `invalid`: the service rejected the PID; `unknown`: no call about it has had a response yet.",
      "required",
    ),
    is_own: boolean("none", "True if the job added it, so that `mirror` may remove it; null if unknown."),
    run_id: text("none", "Run that last changed this row.", "required"),
  },
});

export const segmentListed = table("segment_listed", {
  schema: "state",
  doc: "Members that the current pass over a segment has listed; removed at its end.",
  people: { pids: ["service_pid"] },
  key: ["job", "segment_id", "service_pid"],
  columns: { job: text("none", "Job that reads the segment."), ...segmentId, ...servicePid },
});

/** `GET /v2/segments/signals/deaths` (section 4.6). */
export const deathSignalsEndpoint = endpointOf("GET", "/v2/segments/signals/deaths");

/** Scalar fields of a signal (section 2.11), without its key. */
export const deathSignalFields = {
  date_of_death: date("sensitive", "Day of death; may be filled or corrected later."),
  publication_last_update_date: date("none", "Last update of the publication."),
  first_observed_at: timestamptz("none", "First observation by the service; null for older signals."),
};

/** Keys of `signal_metadata` that the interface documents; each becomes a column `signal_…`. */
export const signalMetadataFields = {
  source: text("none", "`obituary_database`, `ssdi` or `public_records`."),
  obituary_url: text("direct", "Address of the obituary."),
  publication_name: text("none", "Name of the publication."),
  confidence_score: numeric("none", "Confidence in the signal, from 0 to 1."),
  funeral_home: text("indirect", "Name of the funeral home."),
  city: text("indirect", "City named by the source."),
  state: text("indirect", "State named by the source."),
  age_at_death: numeric("sensitive", "Age at death."),
  survivors: json("sensitive", "Survivors of the person."),
  service_date: text("indirect", "Date of the service, as sent."),
  memorial_donation_url: text("indirect", "Address for donations."),
};

/** Column of a metadata key. */
export function signalColumn(key: string): string {
  return `signal_${key}`;
}

const obituaryId = { obituary_id: text("indirect", "Stable ID of the obituary.") };

export const deathSignal = table("death_signal", {
  schema: "data",
  doc: "Death signals, one row per signal, even if several segments report it.",
  key: ["obituary_id", "service_pid"],
  people: { pids: ["service_pid"] },
  columns: {
    ...obituaryId,
    ...servicePid,
    ...deathSignalFields,
    ...prefixed("signal_", signalMetadataFields),
    signal_metadata: json("sensitive", "All metadata as sent."),
  },
  hasExtra: true,
});

export const segmentDeathSignal = table("segment_death_signal", {
  schema: "data",
  doc: "Death signals that segments report or have reported.",
  key: ["segment_id", "obituary_id", "service_pid"],
  belongsTo: "death_signal",
  people: { pids: ["service_pid"] },
  columns: {
    ...segmentId,
    ...obituaryId,
    ...servicePid,
    first_seen_at: timestamptz("none", "When a response first reported the signal.", "required"),
    is_present: boolean("none", "True if the last response reported it.", "required"),
    removed_seen_at: timestamptz("none", "When a response first omitted it; null while present."),
  },
});
