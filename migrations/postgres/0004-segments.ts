import type { Migration } from "kysely/migration";
import { runStatements } from "../../src/load/db/run-statements.ts";

/** Free feeds: segments and their members, death signals. `data` and `ops` are the quoted names of the two schemas. */
export function segments(data: string, ops: string): Migration {
  return {
    up: (db) => runStatements(db, statements(data, ops)),
  };
}

function statements(data: string, ops: string): readonly string[] {
  return [
    `ALTER TABLE ${ops}."sync_run" ADD COLUMN "records_received" bigint NOT NULL DEFAULT 0`,
    `CREATE TABLE ${ops}."sync_gap" (
      "job" text NOT NULL,
      "stream" text NOT NULL,
      "gap_start" timestamp with time zone NOT NULL,
      "gap_end" timestamp with time zone NOT NULL,
      "noticed_at" timestamp with time zone NOT NULL,
      "_synced_at" timestamp with time zone NOT NULL,
      "_run_id" text NOT NULL,
      PRIMARY KEY ("job", "stream", "gap_start")
    )`,
    `CREATE TABLE ${data}."segment" (
      "segment_id" text NOT NULL,
      "name" text,
      "description" text,
      "current_size" bigint,
      "source" text,
      "last_checked_at" timestamp with time zone,
      "last_complete_sync_at" timestamp with time zone,
      "_synced_at" timestamp with time zone NOT NULL,
      "_run_id" text NOT NULL,
      PRIMARY KEY ("segment_id")
    )`,
    `CREATE TABLE ${data}."segment_member" (
      "segment_id" text NOT NULL,
      "service_pid" text NOT NULL,
      "first_added_at" timestamp with time zone,
      "is_member" boolean NOT NULL,
      "first_seen_at" timestamp with time zone NOT NULL,
      "removed_seen_at" timestamp with time zone,
      "_extra" jsonb,
      "_synced_at" timestamp with time zone NOT NULL DEFAULT now(),
      "_run_id" text NOT NULL DEFAULT current_setting('person_etl.run_id', true),
      PRIMARY KEY ("segment_id", "service_pid")
    )`,
    `CREATE TABLE ${data}."segment_membership_history" (
      "segment_id" text NOT NULL,
      "service_pid" text NOT NULL,
      "valid_from" timestamp with time zone NOT NULL,
      "valid_to" timestamp with time zone,
      "valid_from_basis" text NOT NULL,
      "_synced_at" timestamp with time zone NOT NULL DEFAULT now(),
      "_run_id" text NOT NULL DEFAULT current_setting('person_etl.run_id', true),
      PRIMARY KEY ("segment_id", "service_pid", "valid_from")
    )`,
    `CREATE TABLE ${data}."segment_push_member" (
      "job" text NOT NULL,
      "segment_id" text NOT NULL,
      "service_pid" text NOT NULL,
      "state" text NOT NULL,
      "is_own" boolean NOT NULL,
      "since" timestamp with time zone,
      "run_id" text NOT NULL,
      "_synced_at" timestamp with time zone NOT NULL,
      PRIMARY KEY ("job", "segment_id", "service_pid")
    ) WITH (fillfactor = 85)`,
    `CREATE TABLE ${ops}."segment_sync" (
      "segment_id" text NOT NULL,
      "run_id" text NOT NULL,
      "observed_at" timestamp with time zone NOT NULL,
      "current_size" bigint NOT NULL,
      "known_members" bigint NOT NULL,
      "added" bigint NOT NULL,
      "removed" bigint NOT NULL,
      "removals_pending" bigint NOT NULL,
      "_synced_at" timestamp with time zone NOT NULL,
      PRIMARY KEY ("segment_id", "run_id")
    )`,
    `CREATE TABLE ${data}."death_signal" (
      "obituary_id" text NOT NULL,
      "service_pid" text NOT NULL,
      "date_of_death" date,
      "publication_last_update_date" date,
      "first_observed_at" timestamp with time zone,
      "signal_source" text,
      "signal_obituary_url" text,
      "signal_publication_name" text,
      "signal_confidence_score" numeric,
      "signal_funeral_home" text,
      "signal_city" text,
      "signal_state" text,
      "signal_age_at_death" numeric,
      "signal_survivors" jsonb,
      "signal_service_date" text,
      "signal_memorial_donation_url" text,
      "signal_metadata" jsonb,
      "_extra" jsonb,
      "_synced_at" timestamp with time zone NOT NULL,
      "_run_id" text NOT NULL,
      PRIMARY KEY ("obituary_id", "service_pid")
    )`,
    `CREATE TABLE ${data}."segment_death_signal" (
      "segment_id" text NOT NULL,
      "obituary_id" text NOT NULL,
      "service_pid" text NOT NULL,
      "first_seen_at" timestamp with time zone NOT NULL,
      "is_present" boolean NOT NULL,
      "removed_seen_at" timestamp with time zone,
      "_synced_at" timestamp with time zone NOT NULL,
      "_run_id" text NOT NULL,
      PRIMARY KEY ("segment_id", "obituary_id", "service_pid")
    )`,
  ];
}
