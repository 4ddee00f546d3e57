import type { Migration } from "kysely/migration";
import { runStatements } from "../../src/load/db/run-statements.ts";

/** Who was erased, for downstream and for later runs; rows that have left their input. `data` and `ops` are quoted. */
export function erasure(data: string, ops: string): Migration {
  return {
    up: (db) =>
      runStatements(db, [
        `CREATE TABLE ${data}."tombstone" (
          "tombstone_id" uuid NOT NULL,
          "service_pid" text,
          "source" text,
          "source_key" text,
          "erased_at" timestamp with time zone NOT NULL,
          "email_address" text,
          "erasure_id" uuid NOT NULL,
          "removed_at" timestamp with time zone,
          "_synced_at" timestamp with time zone NOT NULL,
          "_run_id" text NOT NULL,
          PRIMARY KEY ("tombstone_id")
        )`,
        `CREATE TABLE ${data}."missing_input_row" (
          "source" text NOT NULL,
          "source_key" text NOT NULL,
          "missing_since" timestamp with time zone NOT NULL,
          "_synced_at" timestamp with time zone NOT NULL,
          "_run_id" text NOT NULL,
          PRIMARY KEY ("source", "source_key")
        )`,
        `CREATE TABLE ${ops}."erasure_subject" (
          "erasure_id" uuid NOT NULL,
          "kind" text NOT NULL,
          "subject_hash" bytea NOT NULL,
          "requested_at" timestamp with time zone NOT NULL,
          "rows_removed" bigint NOT NULL,
          "_synced_at" timestamp with time zone NOT NULL,
          "_run_id" text NOT NULL,
          PRIMARY KEY ("erasure_id", "kind", "subject_hash")
        )`,
        `CREATE INDEX erasure_subject_by_hash ON ${ops}."erasure_subject" (subject_hash)`,
        `CREATE TABLE ${ops}."erasure_epoch" (
          "name" text NOT NULL,
          "epoch" bigint NOT NULL,
          "key_id" text,
          "made_key" text,
          "_synced_at" timestamp with time zone NOT NULL,
          "_run_id" text NOT NULL,
          PRIMARY KEY ("name")
        )`,
        `INSERT INTO ${ops}."erasure_epoch" (name, epoch, _synced_at, _run_id) VALUES ('erasure', 0, now(), '')`,
      ]),
  };
}
