import { type RawBuilder, sql } from "kysely";
import type { WorkSize } from "./lookup-counts.ts";
import type { LookupRecord, LookupSpec, Outcome, RunRef } from "../lookup.ts";
import { HASH_BYTES, hashesInDoubt } from "../ledger/call-in-doubt.ts";
import { quoteLiteral, type SchemaNames } from "../db/names.ts";
import type { Session } from "../db/session.ts";

/**
 * Groups the due rows of `due_row` by content into the work table, in the order of the hash. Under a cap the groups
 * whose first row ranks lowest are kept. Unlogged: a crash of the server empties it, which the reader notices.
 */
export async function fillWorkTable(
  session: Session,
  names: SchemaNames,
  spec: LookupSpec,
  into: { readonly table: RawBuilder<unknown>; readonly run: RunRef } | null,
): Promise<WorkSize> {
  const cap = spec.maxRecords;
  const grouped = sql`
    SELECT sent_hash, min(rank) AS rank, sum(occurrences)::bigint AS occurrences
    FROM pg_temp.due_row WHERE class NOT LIKE 'reject:%' GROUP BY sent_hash`;
  const [size] = await session.rows<{ groups: number; rows: number }>(sql`
    SELECT count(*) AS groups, coalesce(sum(occurrences), 0)::bigint AS rows FROM (${grouped}) AS g`);
  const { groups = 0, rows = 0 } = size ?? {};
  let kept = { groups, rows };
  if (cap !== null && cap < groups) {
    const [capped] = await session.rows<{ groups: number; rows: number }>(sql`
      SELECT count(*) AS groups, coalesce(sum(occurrences), 0)::bigint AS rows
      FROM (SELECT occurrences FROM (${grouped}) AS g ORDER BY rank NULLS LAST, sent_hash LIMIT ${cap}) AS k`);
    kept = { groups: capped?.groups ?? 0, rows: capped?.rows ?? 0 };
  }
  if (into) {
    const { table, run } = into;
    // A run that goes on under its id after a crash finds the one that it left.
    await session.change(sql`DROP TABLE IF EXISTS ${table}`);
    await session.change(sql`CREATE UNLOGGED TABLE ${table} (ord bigint PRIMARY KEY, sent_hash text NOT NULL,
      record text NOT NULL, pid text, source_keys text[] NOT NULL, input_hashes text[] NOT NULL, priors text[] NOT NULL,
      occurrences bigint NOT NULL, in_doubt boolean NOT NULL)`);
    // The comment tells whose table it is, so that one that a crash leaves behind can be dropped.
    const owner = quoteLiteral(JSON.stringify([run.job, run.runId, run.shard]));
    await session.change(sql`COMMENT ON TABLE ${table} IS ${sql.raw(owner)}`);
    await session.change(sql`
      INSERT INTO ${table}
      SELECT row_number() OVER (ORDER BY sent_hash), encode(sent_hash, 'hex'), record, pid, source_keys, input_hashes,
        priors, occurrences,
        substring(sent_hash FROM 1 FOR ${HASH_BYTES}::int) IN (${hashesInDoubt(names, spec.job)})
      FROM (
        SELECT sent_hash, min(record COLLATE "C") AS record, min(pid COLLATE "C") AS pid, min(rank) AS rank,
          array_agg(source_key ORDER BY source_key COLLATE "C") AS source_keys,
          array_agg(encode(input_hash, 'hex') ORDER BY source_key COLLATE "C") AS input_hashes,
          array_agg(coalesce(prior, '') ORDER BY source_key COLLATE "C") AS priors,
          sum(occurrences)::bigint AS occurrences
        FROM pg_temp.due_row WHERE class NOT LIKE 'reject:%' GROUP BY sent_hash
        ORDER BY min(rank) NULLS LAST, sent_hash LIMIT ${cap}) AS kept`);
  }
  return { groups, rows, keptGroups: kept.groups, keptRows: kept.rows };
}

interface WorkRow {
  readonly ord: number;
  readonly sent_hash: string;
  readonly record: string;
  readonly pid: string | null;
  readonly source_keys: string[];
  readonly input_hashes: string[];
  readonly priors: string[];
  readonly occurrences: number;
  readonly in_doubt: boolean;
}

function priorOf(text: string | undefined): Outcome | null {
  return text === "matched" || text === "unmatched" || text === "rejected" ? text : null;
}

/**
 * A page of distinct records after `afterOrd`, the last `ord` of it, and how many it read: those of people who were erased
 * since have left empty rows.
 */
export async function readWorkPage(
  session: Session,
  table: RawBuilder<unknown>,
  spec: LookupSpec,
  page: { readonly afterOrd: number; readonly size: number },
): Promise<{ readonly records: readonly LookupRecord[]; readonly lastOrd: number; readonly read: number }> {
  const rows = await session.rows<WorkRow>(sql`
    SELECT ord, sent_hash, record, pid, source_keys, input_hashes, priors, occurrences,
      in_doubt
    FROM ${table} WHERE ord > ${page.afterOrd} ORDER BY ord LIMIT ${page.size}`);
  const isAddresses = spec.type === "validate_emails";
  const present = rows.filter((row) => row.source_keys.length > 0);
  const records = present.map((row) => ({
    recordId: String(row.ord),
    json: row.record,
    ...(isAddresses ? { address: row.source_keys[0] ?? "" } : {}),
    sentHash: row.sent_hash,
    sentPid: row.pid,
    rows: row.source_keys.map((sourceKey, i) => ({
      sourceKey,
      inputHash: row.input_hashes[i] ?? "",
      priorOutcome: priorOf(row.priors[i]),
    })),
    occurrences: row.occurrences,
    ...(row.in_doubt ? { mayBeBilled: true } : {}),
  }));
  return { records, lastOrd: rows.at(-1)?.ord ?? page.afterOrd, read: rows.length };
}
