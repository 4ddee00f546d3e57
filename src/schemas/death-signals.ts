import { date, type Fields, json, numeric, text, timestamptz } from "./field.ts";
import { column, columnsOf, type Table, table } from "./table.ts";

/** `GET /v2/segments/signals/deaths` (section 4.6). */
export const deathSignalsEndpoint = {
  name: "GET /v2/segments/signals/deaths",
  method: "GET",
  path: "/v2/segments/signals/deaths",
} as const;

/** Scalar fields of a signal (section 2.11), without its key. */
export const deathSignalFields: Fields = {
  date_of_death: date("sensitive", "Day of death; may be filled or corrected later."),
  publication_last_update_date: date("none", "Last update of the publication."),
  first_observed_at: timestamptz("none", "First observation by the service; null for older signals."),
};

/** Keys of `signal_metadata` that the interface documents; each becomes a column `signal_…`. */
export const signalMetadataFields: Fields = {
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

const servicePid = column("service_pid", "text", "direct", "PID of the person.");
const obituaryId = column("obituary_id", "text", "indirect", "Stable ID of the obituary.");

/** Signals of all segments. */
export const deathSignal: Table = table("death_signal", {
  schema: "data",
  doc: "Death signals, one row per signal, even if several segments report it.",
  key: ["obituary_id", "service_pid"],
  people: { pids: ["service_pid"] },
  columns: [
    obituaryId,
    servicePid,
    ...columnsOf(deathSignalFields),
    ...columnsOf(
      Object.fromEntries(Object.entries(signalMetadataFields).map(([key, f]) => [signalColumn(key), f])),
    ),
    column("signal_metadata", "json", "sensitive", "All metadata as sent."),
  ],
  hasExtra: true,
});

/** Signals by segment. */
export const segmentDeathSignal: Table = table("segment_death_signal", {
  schema: "data",
  doc: "Death signals that segments report or have reported.",
  key: ["segment_id", "obituary_id", "service_pid"],
  people: { pids: ["service_pid"] },
  columns: [
    column("segment_id", "text", "none", "ID of the segment."),
    obituaryId,
    servicePid,
    column("first_seen_at", "timestamptz", "none", "First response that reported the signal.", true),
    column("is_present", "boolean", "none", "True if the last response reported it.", true),
    column("removed_seen_at", "timestamptz", "none", "First response without it; null while present."),
  ],
});
