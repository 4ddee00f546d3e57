import type { Migration } from "kysely/migration";
import { runStatements } from "../../src/load/db/run-statements.ts";

/** The slots of schedules, and what alerts were told of; `ops` is the quoted name of the schema. */
export function schedule(ops: string): Migration {
  return {
    up: (db) => runStatements(db, statements(ops)),
  };
}

function statements(ops: string): readonly string[] {
  return [
    `CREATE TABLE ${ops}."schedule_slot" (
      "job" text NOT NULL,
      "slot" text NOT NULL,
      "due_at" timestamp with time zone NOT NULL,
      "run_id" text,
      "status" text NOT NULL,
      "owner" text NOT NULL,
      "host" text,
      "pid" bigint,
      "attempts" bigint NOT NULL,
      "claimed_at" timestamp with time zone NOT NULL,
      "expires_at" timestamp with time zone NOT NULL,
      "ended_at" timestamp with time zone,
      "_synced_at" timestamp with time zone NOT NULL,
      PRIMARY KEY ("job", "slot")
    )`,
    `CREATE INDEX schedule_slot_by_time ON ${ops}."schedule_slot" (job, due_at)`,
    `CREATE TABLE ${ops}."alert_state" (
      "subject" text NOT NULL,
      "state" text NOT NULL,
      "told_state" text NOT NULL,
      "changed_at" timestamp with time zone NOT NULL,
      "told_at" timestamp with time zone,
      "_synced_at" timestamp with time zone NOT NULL,
      "_run_id" text NOT NULL,
      PRIMARY KEY ("subject")
    )`,
  ];
}
