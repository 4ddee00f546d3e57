import type { Migration } from "kysely/migration";
import { runStatements } from "../../src/load/db/run-statements.ts";

/**
 * Budgets: what is reserved before a call is sent, which calls are under way, and which records they carry. `data` and `ops`
 * are the quoted names of the two schemas. Calls of earlier versions count in their day and month as well, so that a budget
 * that is set in the middle of a month knows what the month has cost.
 */
export function budgets(data: string, ops: string): Migration {
  return {
    up: (db) => runStatements(db, statements(data, ops)),
  };
}

function statements(data: string, ops: string): readonly string[] {
  return [
    `ALTER TABLE ${ops}."api_call"
      ADD COLUMN "settled_at" timestamp with time zone,
      ADD COLUMN "budget" text,
      ADD COLUMN "reserved_at" timestamp with time zone,
      ADD COLUMN "records_reserved" bigint NOT NULL DEFAULT 0,
      ADD COLUMN "records_possibly_billed_twice" bigint NOT NULL DEFAULT 0`,
    `UPDATE ${ops}."api_call" SET settled_at = _synced_at, reserved_at = started_at,
      budget = CASE endpoint WHEN 'POST /v1/resolve' THEN 'resolve' WHEN 'POST /v2/resolve' THEN 'resolve'
        WHEN 'POST /v2/validate_emails' THEN 'validate_emails' WHEN 'POST /v2/enrich' THEN 'enrich' END,
      records_reserved = CASE WHEN possibly_billed OR records_matched IS NOT NULL THEN records_sent ELSE 0 END`,
    // Budgets are counted by a few rows that every call changes: room in their page keeps each change in place.
    `CREATE TABLE ${ops}."budget_use" (
      "budget" text NOT NULL,
      "period" text NOT NULL,
      "period_key" text NOT NULL,
      "records_reserved" bigint NOT NULL,
      "_synced_at" timestamp with time zone NOT NULL,
      "_run_id" text NOT NULL,
      PRIMARY KEY ("budget", "period", "period_key")
    ) WITH (fillfactor = 10)`,
    `INSERT INTO ${ops}."budget_use" (budget, period, period_key, records_reserved, _synced_at, _run_id)
      SELECT budget, period, to_char(reserved_at AT TIME ZONE 'UTC', CASE period WHEN 'day' THEN 'YYYY-MM-DD' ELSE 'YYYY-MM' END),
        sum(records_reserved), now(), max(run_id)
      FROM ${ops}."api_call" CROSS JOIN (VALUES ('day'), ('month')) AS p(period)
      WHERE budget IS NOT NULL AND records_reserved > 0 GROUP BY 1, 2, 3`,
    `CREATE INDEX api_call_by_time ON ${ops}."api_call" (reserved_at)`,
    `CREATE TABLE ${data}."call_in_doubt" (
      "call_id" uuid NOT NULL,
      "job" text NOT NULL,
      "record_hashes" bytea NOT NULL,
      "_synced_at" timestamp with time zone NOT NULL,
      "_run_id" text NOT NULL,
      PRIMARY KEY ("call_id")
    )`,
  ];
}
