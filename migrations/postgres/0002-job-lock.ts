import type { Migration } from "kysely/migration";
import { runStatements } from "../../src/load/db/run-statements.ts";

/** The lock of each job. Its few rows are updated with every heartbeat, so the pages keep room for that. */
export function jobLock(ops: string): Migration {
  return {
    up: (db) =>
      runStatements(db, [
        `CREATE TABLE ${ops}."job_lock" (
          "job" text NOT NULL,
          "shard" text NOT NULL,
          "epoch" bigint NOT NULL,
          "owner_token" text NOT NULL,
          "run_id" text NOT NULL,
          "host" text NOT NULL,
          "pid" bigint NOT NULL,
          "machine" text,
          "process_start" text,
          "acquired_at" timestamp with time zone NOT NULL,
          "heartbeat_at" timestamp with time zone NOT NULL,
          "expires_at" timestamp with time zone NOT NULL,
          "released_at" timestamp with time zone,
          "_synced_at" timestamp with time zone NOT NULL,
          PRIMARY KEY ("job", "shard")
        ) WITH (fillfactor = 50)`,
      ]),
  };
}
