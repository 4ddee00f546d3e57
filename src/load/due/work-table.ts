import { createHash } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import type { Db } from "../db/db.ts";
import { quoteLiteral, quoteQualified, type SchemaNames, stateTableId, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { WorkSize } from "./lookup-counts.ts";
import type { StratumCount } from "./strata.ts";
import { addOutcomes, countOutcomes } from "./outcomes.ts";
import type { LookupRecord, WorkTables } from "./lookup-record.ts";
import type { LookupSpec } from "./lookup-spec.ts";
import type { RunRef } from "../runs/run-ref.ts";

/** Prefix of tables with distinct records to send. */
export const RECORDS = "lookup_work_";
/** Prefix of tables with the input rows behind the records. */
export const ROWS = "lookup_row_";

/** Days after which an answer of a crashed run is no longer expected. */
const ROWS_KEPT_DAYS = 30;

/** Names the work tables of a run. A run resumed under its ID has a new epoch, and so new tables. */
export function workTablesOf({ runId, job, shard, epoch }: RunRef): WorkTables {
  const name = JSON.stringify([runId, job, shard, epoch]);
  const suffix = createHash("sha256").update(name).digest("hex").slice(0, 24);
  return { records: `${RECORDS}${suffix}`, rows: `${ROWS}${suffix}` };
}

/** Rows of `due_row` that can be sent. */
const SENDABLE = sql`FROM pg_temp.due_row WHERE class NOT LIKE 'reject:%'`;

/** Order of records under a cap: that of `order_by`, without it the order of the hashes; unresolved ones last. */
const FIRST = sql`min(rank) NULLS LAST, min(stratum) = 'unresolved', sent_hash`;

/** Groups the due rows of `due_row` by content. Under a cap, keeps the groups that come first. */
export async function fillWorkTables(
  session: Session,
  names: SchemaNames,
  spec: LookupSpec,
  into: { readonly tables: WorkTables; readonly run: RunRef } | null,
): Promise<WorkSize> {
  const grouped = sql`SELECT min(stratum) AS stratum, sum(occurrences) AS occurrences ${SENDABLE} GROUP BY sent_hash`;
  const count = (groups: RawBuilder<unknown>) =>
    session.rows<StratumCount>(sql`
      SELECT stratum, count(*) AS records, sum(occurrences)::bigint AS rows
      FROM (${groups}) AS g GROUP BY stratum ORDER BY stratum`);
  const due = await count(grouped);
  const { maxRecords: cap } = spec;
  const isCut = cap !== null && cap < due.reduce((sum, { records }) => sum + records, 0);
  const toSend = isCut ? await count(sql`${grouped} ORDER BY ${FIRST} LIMIT ${cap}`) : due;
  if (into) await freeze(session, names, spec.input.name, isCut ? cap : null, into);
  return { due, toSend };
}

/** Rows of `due_row` to send; under a cap, those of the records that come first. */
function keptRows(cap: number | null): RawBuilder<unknown> {
  if (cap === null) return SENDABLE;
  return sql`${SENDABLE} AND sent_hash IN (SELECT sent_hash ${SENDABLE} GROUP BY sent_hash ORDER BY ${FIRST} LIMIT ${cap})`;
}

/** Their distinct records, numbered in the order of sending: ord, sent_hash, record, pid. */
function keptRecords(cap: number | null): RawBuilder<unknown> {
  return sql`
    SELECT row_number() OVER (ORDER BY sent_hash) AS ord, sent_hash, record, pid
    FROM (
      SELECT DISTINCT ON (sent_hash) sent_hash, record, pid ${keptRows(cap)}
      ORDER BY sent_hash, record COLLATE "C") AS kept`;
}

async function freeze(
  session: Session,
  names: SchemaNames,
  source: string,
  cap: number | null,
  { tables, run }: { readonly tables: WorkTables; readonly run: RunRef },
): Promise<void> {
  const records = stateTableId(names, tables.records);
  const rows = stateTableId(names, tables.rows);
  // The reply to the COMMIT of an earlier attempt may have been lost.
  await session.change(sql`DROP TABLE IF EXISTS ${records}, ${rows}`);
  await session.change(sql`CREATE TABLE ${records} (ord bigint PRIMARY KEY, sent_hash bytea NOT NULL,
    record text NOT NULL, pid text)`);
  // An erasure sets the key of a row to null.
  await session.change(sql`CREATE TABLE ${rows} (ord bigint NOT NULL, source_key text, input_hash bytea NOT NULL,
    prior text, occurrences bigint NOT NULL, is_sent boolean NOT NULL, fingerprint bytea)`);
  // The comment names the owner, so that tables left by a crash can be dropped.
  const owner = quoteLiteral(JSON.stringify([run.job, run.runId, run.shard, source]));
  await session.change(sql`COMMENT ON TABLE ${records} IS ${sql.raw(owner)}`);
  await session.change(sql`COMMENT ON TABLE ${rows} IS ${sql.raw(owner)}`);
  await session.change(sql`INSERT INTO ${records} ${keptRecords(cap)}`);
  await session.change(sql`
    INSERT INTO ${rows}
    SELECT dense_rank() OVER (ORDER BY sent_hash), source_key, input_hash, prior, occurrences, false, fingerprint
    ${keptRows(cap)}`);
  await session.change(sql`CREATE INDEX ON ${rows} (ord)`);
  // Without statistics the planner reads the whole table for each commit.
  await session.change(sql`ANALYZE ${rows}`);
}

interface WorkRow {
  readonly ord: number;
  readonly sent_hash: string;
  readonly record: string;
  readonly pid: string | null;
}

/** One page of distinct records. */
export interface WorkPage {
  readonly records: readonly LookupRecord[];
  readonly lastOrd: number;
  /** Records read, including those of erased people. */
  readonly read: number;
}

/** Reads a page of distinct records after `afterOrd`; the first `inDoubt` of all may have been billed before. */
export async function readWorkPage(
  session: Session,
  names: SchemaNames,
  spec: LookupSpec,
  page: {
    readonly tables: WorkTables;
    readonly afterOrd: number;
    readonly size: number;
    readonly inDoubt: number;
  },
): Promise<WorkPage> {
  const rows = await session.rows<WorkRow>(sql`
    SELECT ord, encode(sent_hash, 'hex') AS sent_hash, record, pid
    FROM ${stateTableId(names, page.tables.records)} WHERE ord > ${page.afterOrd} ORDER BY ord LIMIT ${page.size}`);
  const records = rows
    .filter((row) => row.record !== "")
    .map((row) => ({ ...recordOf(spec, row), ...(row.ord <= page.inDoubt ? { mayBeBilled: true } : {}) }));
  return { records, lastOrd: rows.at(-1)?.ord ?? page.afterOrd, read: rows.length };
}

/** Reads the first distinct records of `due_row`, which a plan doesn't freeze. */
export async function readFirstRecords(
  session: Session,
  spec: LookupSpec,
  count: number,
): Promise<readonly LookupRecord[]> {
  const rows = await session.rows<WorkRow>(sql`
    SELECT ord, encode(sent_hash, 'hex') AS sent_hash, record, pid
    FROM (${keptRecords(spec.maxRecords)}) AS first WHERE ord <= ${count} ORDER BY ord`);
  return rows.map((row) => recordOf(spec, row));
}

function recordOf({ type }: LookupSpec, { ord, record, sent_hash: sentHash, pid }: WorkRow): LookupRecord {
  const address = type === "validate_emails" ? { address: addressOf(record) } : {};
  return { recordId: String(ord), json: record, ...address, sentHash, sentPid: pid };
}

/** Address of a record, which the selection wrote as a JSON string. */
function addressOf(json: string): string {
  return String(JSON.parse(json));
}

/** Drops the records of a finished run, and their rows unless an answer may still need them. */
export async function dropWorkTables(
  session: Session,
  names: SchemaNames,
  run: Pick<RunRef, "runId" | "job">,
  { records, rows }: Partial<WorkTables>,
): Promise<void> {
  if (records !== undefined) await session.change(sql`DROP TABLE IF EXISTS ${stateTableId(names, records)}`);
  if (rows === undefined) return;
  const [open] = await session.rows(sql`
    SELECT FROM ${tableId(names, "api_call")} WHERE run_id = ${run.runId} AND job = ${run.job}
      AND settled_at IS NULL AND reserved_at > now() - make_interval(days => ${ROWS_KEPT_DAYS}) LIMIT 1`);
  if (!open) await session.change(sql`DROP TABLE IF EXISTS ${stateTableId(names, rows)}`);
}

/** Work table with its owner. */
export interface OwnedTable {
  readonly name: string;
  readonly job: string;
  readonly runId: string;
  readonly shard: string;
  /** Name of the input. */
  readonly source: string;
}

/** Lists work tables with a prefix. */
export async function listWorkTables(
  session: Session,
  names: SchemaNames,
  prefix: string,
): Promise<readonly OwnedTable[]> {
  const rows = await session.rows<{ name: string; owner: string | null }>(sql`
    SELECT c.relname AS name, obj_description(c.oid, 'pg_class') AS owner
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = ${names.state} AND c.relkind = 'r' AND starts_with(c.relname, ${prefix}) ORDER BY 1`);
  return rows.map(({ name, owner }) => {
    // The comment is ours: job, run, shard and input.
    const [job = "", runId = "", shard = "0/1", source = ""] = JSON.parse(owner ?? "[]") as string[];
    return { name, job, runId, shard, source };
  });
}

/** Counts the job's runs that never ended, and drops the work tables that they left. Those of running shards stay. */
export async function dropOrphanedWorkTables(
  session: Session,
  names: SchemaNames,
  { source, run }: { readonly source: string; readonly run: RunRef },
): Promise<void> {
  const { job } = run;
  for (const prefix of [RECORDS, ROWS]) {
    for (const table of await listWorkTables(session, names, prefix)) {
      if (table.job !== job) continue;
      // Rows of this run were written by an earlier process: its answers count as unchanged.
      const isOwn = table.runId === run.runId && table.shard === run.shard;
      const [orphan] = await session.rows<{ is_running: boolean }>(sql`
        SELECT status = 'running' AS is_running FROM ${tableId(names, "sync_run")}
        WHERE run_id = ${table.runId} AND job = ${job} AND shard = ${table.shard}`);
      if (orphan?.is_running && !isOwn) continue;
      if (prefix === ROWS) {
        await dropWorkTables(session, names, table, { rows: table.name });
        continue;
      }
      const rows = table.name.replace(RECORDS, ROWS);
      if (orphan && !isOwn) {
        await addOutcomes(
          session,
          names,
          table,
          await countOutcomes(session, names, table, { source, rows }),
        );
      }
      await dropWorkTables(session, names, table, { records: table.name });
    }
  }
}

/**
 * True if the input rows of an answer are gone although it was never loaded: the database was restored from a backup, or the
 * answer is older than rows are kept.
 */
export function areRowsGone(db: Db, rows: string, callId: string): Promise<boolean> {
  const { names } = db;
  return db.transaction(async (session) => {
    const [found] = await session.rows<{ gone: boolean }>(sql`
      SELECT to_regclass(${quoteQualified([names.state, rows])}) IS NULL AND NOT EXISTS (
        SELECT FROM ${tableId(names, "api_call")} WHERE call_id = ${callId}::uuid AND settled_at IS NOT NULL) AS gone`);
    return found?.gone ?? false;
  });
}

/** True if a run was not counted yet: its records are dropped at its end, or by the next run, which counts it. */
export async function isUncounted(session: Session, names: SchemaNames, rows: string): Promise<boolean> {
  const tables = await listWorkTables(session, names, rows.replace(ROWS, RECORDS));
  return tables.length > 0;
}
