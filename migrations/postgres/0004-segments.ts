import type { Migration } from "kysely/migration";
import { runStatements } from "../../src/load/postgres/run-statements.ts";

/** Free feeds: segments and their members, death signals. `data` and `ops` are the quoted names of the two schemas. */
export function segments(data: string, ops: string): Migration {
  return {
    up: (db) => runStatements(db, statements(data, ops)),
  };
}

function statements(_data: string, ops: string): readonly string[] {
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
  ];
}
