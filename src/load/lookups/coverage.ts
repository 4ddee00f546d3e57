import { type RawBuilder, sql } from "kysely";
import type { Db } from "../db/db.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import { raw } from "../inputs/input.ts";
import type { LookupSpec } from "./lookup.ts";
import { isRowOf } from "./row-sql.ts";
import { analyzeLookups } from "./selection.ts";

/** Coverage of an input, in rows; for validate_emails in distinct addresses. */
export interface Coverage {
  readonly source: string;
  readonly inputRows: number;
  readonly answered: number;
  readonly matched: number;
  readonly unmatched: number;
  readonly rejected: number;
  readonly due: number;
  readonly oldestAnswerAt: string | null;
}

/** Counts what a job has answered of its input. @param unusable rows without a usable key, which have no content */
export async function readCoverage(db: Db, spec: LookupSpec, unusable: number): Promise<Coverage> {
  const { names } = db;
  await analyzeLookups(db);
  return await db.transaction(async (session) => {
    const [found] = await session.rows<Omit<Coverage, "source" | "answered">>(sql`
      SELECT count(*) + ${unusable}::bigint AS "inputRows", count(*) FILTER (WHERE a.outcome = 'matched') AS matched,
        count(*) FILTER (WHERE a.outcome = 'unmatched') AS unmatched,
        count(*) FILTER (WHERE a.outcome = 'rejected') + ${unusable}::bigint AS rejected,
        count(d.content) AS due, min(a.answered_at)::text AS "oldestAnswerAt"
      FROM (${contentsOf(names, spec)}) AS r
      LEFT JOIN ${tableId(names, "lookup_answer")} AS a ON a.kind = ${spec.kind} AND a.content = r.content
      LEFT JOIN ${tableId(names, "lookup_due")} AS d ON d.kind = ${spec.kind} AND d.content = r.content`);
    const counts = found ?? {
      inputRows: 0,
      matched: 0,
      unmatched: 0,
      rejected: 0,
      due: 0,
      oldestAnswerAt: null,
    };
    return { source: spec.source, answered: counts.matched + counts.unmatched, ...counts };
  });
}

/** Content of each present row; for validate_emails each address once. */
function contentsOf(names: SchemaNames, spec: LookupSpec): RawBuilder<unknown> {
  const rows = sql`${tableId(names, "lookup_row")} AS r`;
  const isPresent = sql`${raw(isRowOf(spec))} AND r.missing_since IS NULL`;
  return spec.type === "validate_emails"
    ? sql`SELECT DISTINCT convert_to(e.email_address, 'UTF8') AS content FROM ${rows}
        JOIN ${tableId(names, "input_email")} AS e ON e.source = r.source AND e.source_key = r.source_key WHERE ${isPresent}`
    : sql`SELECT r.content FROM ${rows} WHERE ${isPresent}`;
}

/** The coverage that the job's last run recorded, for a run that changed nothing; null without one. */
export function lastCoverage(db: Db, { job, source }: LookupSpec, shard: string): Promise<Coverage | null> {
  return db.transaction(async (session) => {
    const [last] = await session.rows<Coverage>(sql`
      SELECT source, input_rows AS "inputRows", answered, matched, unmatched, rejected, due, oldest_answer_at::text AS "oldestAnswerAt"
      FROM ${tableId(db.names, "input_coverage")} WHERE job = ${job} AND source = ${source} AND shard = ${shard}
      ORDER BY _synced_at DESC LIMIT 1`);
    return last ?? null;
  });
}
