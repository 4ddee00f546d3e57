import { createHash } from "node:crypto";
import type { LookupSpec, RunRef } from "../warehouse.ts";
import { sql } from "kysely";
import { type DatasetNames, quoteLiteral, quoteQualified, tableId, tableText } from "./names.ts";
import type { Session } from "./session.ts";
import { dropTable, tablesNamed } from "./staging.ts";

/** The tables that a selection is made in, as they stand in statements. */
export interface SelectionTables {
  /** Every row of the input with its class; of rows that aren't due nothing else. */
  readonly due: string;
  /** Due rows that take the fresh answer of an equal record. */
  readonly reused: string;
  /** Distinct records to send. */
  readonly work: string;
  /** For validate_emails: addresses as they occur. */
  readonly addresses: string;
  /** `CREATE … TABLE … AS` of one of them. */
  create(table: string, select: string): string;
}

/** How long tables of a selection stay that nobody drops: longer than any run takes. */
const LIFE_DAYS = 14;

/** What the tables of selections begin with, in the dataset of the people. */
export const SELECTION_PREFIX = "_etl_select_";

/** Tables that live as long as the statements of one script. */
export const temporaryTables: SelectionTables = {
  due: "due_row",
  reused: "reused_row",
  work: "work_row",
  addresses: "address_row",
  create: (table, select) => `CREATE TEMP TABLE ${table} AS ${select}`,
};

/** Names of a run's tables; who goes on under its id, or took it over, has others. */
export function tableNamesOf({ runId, job, shard, epoch }: RunRef) {
  const hash = createHash("sha256")
    .update(JSON.stringify([runId, job, shard, epoch]))
    .digest("hex")
    .slice(0, 24);
  return {
    due: `${SELECTION_PREFIX}due_${hash}`,
    reused: `${SELECTION_PREFIX}reused_${hash}`,
    work: `${SELECTION_PREFIX}work_${hash}`,
    addresses: `${SELECTION_PREFIX}address_${hash}`,
  };
}

/** Tables of a run, which expire by themselves; the description tells whose they are. */
export function runTables(names: DatasetNames, run: RunRef): SelectionTables {
  const own = tableNamesOf(run);
  const owner = quoteLiteral(JSON.stringify([run.job, run.runId, run.shard, run.epoch]));
  const options = `expiration_timestamp = TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL ${LIFE_DAYS} DAY), description = ${owner}`;
  return {
    due: tableText(names, "data", own.due),
    reused: tableText(names, "data", own.reused),
    work: tableText(names, "data", own.work),
    addresses: tableText(names, "data", own.addresses),
    create: (table, select) => `CREATE OR REPLACE TABLE ${table} OPTIONS (${options}) AS ${select}`,
  };
}

/** Drops tables of a selection. */
export function dropTables(tables: readonly string[]): string {
  return tables.map((table) => `DROP TABLE IF EXISTS ${table};`).join("\n");
}

/** Where and for what a selection writes into our tables. */
export interface FreezePlace {
  readonly names: DatasetNames;
  readonly spec: LookupSpec;
  readonly tables: SelectionTables;
  readonly runId: string;
}

/** A statement that adds the rows that the statement before it has changed to those of a table. */
export type CountRows = (table: string, rows?: string) => string;

/** A table of a selection, and whose it is. */
export interface SelectionTable {
  readonly name: string;
  readonly job: string;
  readonly runId: string;
  readonly shard: string;
  /** Of the run's lock. */
  readonly epoch: number;
  /** It holds what is to be sent. */
  readonly isWork: boolean;
}

/** One of job, run, shard and epoch, in a table's description. */
const owner = (at: number) => `JSON_VALUE(JSON_VALUE(o.option_value), '$[${at}]')`;

/** All tables of selections that are there: their descriptions tell whose they are. */
export async function readSelectionTables(session: Session): Promise<readonly SelectionTable[]> {
  const { names } = session;
  if ((await tablesNamed(session, SELECTION_PREFIX)).length === 0) return [];
  return session.rows<SelectionTable>(
    sql.raw(`SELECT o.table_name AS name, ${owner(0)} AS job, ${owner(1)} AS runId, ${owner(2)} AS shard,
        CAST(${owner(3)} AS INT64) AS epoch,
        STARTS_WITH(o.table_name, '${SELECTION_PREFIX}work_') AS isWork
      FROM ${quoteQualified([names.project, names.data])}.INFORMATION_SCHEMA.TABLE_OPTIONS AS o
      WHERE o.option_name = 'description' AND STARTS_WITH(o.table_name, '${SELECTION_PREFIX}')`),
  );
}

/** Drops all tables of a run's selection. */
export async function dropSelection(session: Session, run: RunRef): Promise<void> {
  for (const name of Object.values(tableNamesOf(run))) await dropTable(session, name);
}

/** Drops tables of the job's runs that are over, or were taken over; a running run's stay. */
export async function dropOrphanedSelections(
  session: Session,
  { job }: Pick<LookupSpec, "job">,
): Promise<void> {
  const own = (await readSelectionTables(session)).filter((table) => table.job === job);
  if (own.length === 0) return;
  const { names } = session;
  const running = await session.rows<{ runId: string; shard: string; epoch: number }>(sql`
    SELECT r.run_id AS runId, r.shard, IFNULL(MAX(l.epoch), 0) AS epoch
    FROM ${tableId(names, "ops", "sync_run")} AS r
    LEFT JOIN ${tableId(names, "ops", "job_lock")} AS l ON l.job = r.job AND l.shard = r.shard
    WHERE r.status = 'running' AND r.job = ${job} GROUP BY 1, 2`);
  const isRunning = (table: SelectionTable) =>
    running.some(
      ({ runId, shard, epoch }) => runId === table.runId && shard === table.shard && table.epoch >= epoch,
    );
  for (const table of own) if (!isRunning(table)) await dropTable(session, table.name);
}
