import { type RawBuilder, sql } from "kysely";
import { quoteLiteral } from "../db/names.ts";
import { type Session, withRolePath } from "../db/session.ts";
import type { ErasedSql } from "../erasure/subjects.ts";
import { createFromInput, type OpenedInput, openForeignInput, openLocalInput } from "../inputs/read.ts";
import type { InputDatabase, InputQuery } from "../inputs/input.ts";
import type { RunRef } from "../runs/fence.ts";
import {
  comparison,
  type Freshness,
  isFresh,
  isRowOf,
  mayBeExpired,
  ownsKey,
  type RowContext,
  seenAddresses,
  seenAddressRows,
  seenRows,
} from "./content.ts";
import type { LookupSpec } from "./lookup.ts";
import { readJob, resendBelow, type StoredJob } from "./parameters.ts";

/** Key of an input row: the given values of its columns, and its stored text. */
export interface GivenKey {
  readonly key: readonly string[];
  readonly sourceKey: string;
}

/** Transaction, job and input of a reading. */
export interface ReadingContext {
  readonly session: Session;
  readonly spec: LookupSpec;
  /** Database of the input; null for the warehouse. */
  readonly foreign: InputDatabase | null;
  /** Conditions for identifiers of erased people; null if no one was erased. */
  readonly erased: ErasedSql | null;
  /** Run that stores what it reads and claims what is due; null for a plan. */
  readonly run: RunRef | null;
  readonly touch: (table: string, rows: number) => void;
  /** The only row to read; null for all. */
  readonly only: GivenKey | null;
}

/** Bytes of keys that a query of another database takes: a request to BigQuery has at most 10 MB. */
const MAX_KEYS_BYTES = 4 * 1024 * 1024;

/** A read input: its rows are in `pg_temp.seen`, for validate_emails their addresses in `seen_address` and `seen_content`. */
export interface SeenInput {
  readonly job: StoredJob;
  readonly freshness: Freshness;
  /** Rows (addresses) that weren't read again. */
  readonly quiet: number;
  /** True unless only changed rows were read. */
  readonly isWhole: boolean;
}

/**
 * Reads the input: compares the fingerprints of all rows with the stored ones in one join, and reads the values of the rows that
 * differ, or whose content is wanted. Leaves them in temporary tables.
 */
export async function seeInput(context: ReadingContext): Promise<SeenInput> {
  const { session, spec, run, only } = context;
  const job = await readJob(session, spec);
  // Until the user has decided about new parameters, nothing is sent.
  const resend =
    spec.resend && job.decision !== "undecided"
      ? await resendBelow(session, spec, run?.runId ?? null)
      : { below: job.resendBelow, isNew: false };
  const freshness: Freshness = { ...spec, resendBelow: resend.below };
  const isWhole = only !== null || resend.isNew || job.decision !== "accepted" || !(await isKnown(context));
  const quiet = await withRolePath(session, async () => {
    const { opened, total } = await openRows(context, freshness, isWhole);
    const rows: RowContext = {
      session,
      spec,
      freshness,
      formerKind: job.formerKind,
      erased: context.erased,
      opened,
      hasRank: spec.maxRecords !== null && spec.input.orderBy !== null,
    };
    if (spec.type !== "validate_emails") {
      await createFromInput(session, "seen", seenRows(rows));
      const [seen = 0] = await session.pluck<number>(sql`SELECT count(*) FROM pg_temp.seen`);
      return total === null ? 0 : total - seen;
    }
    await createFromInput(session, "seen", seenAddressRows(rows));
    const email = rows.erased ? sql`OR ${rows.erased.email("e")}` : sql``;
    await session.change(sql`CREATE TEMP TABLE seen_address ON COMMIT DROP AS
      SELECT source_key, copy, rank, (o - 1)::int AS position, e AS email_address, is_erased ${email} AS is_erased
      FROM pg_temp.seen LEFT JOIN LATERAL unnest(addresses) WITH ORDINALITY AS u(e, o) ON true`);
    await session.change(sql`CREATE TEMP TABLE seen_content ON COMMIT DROP AS ${seenAddresses(rows)}`);
    await session.client.query("ANALYZE pg_temp.seen_address; ANALYZE pg_temp.seen_content");
    return isWhole ? 0 : await countQuietAddresses(context);
  });
  return { job, freshness, quiet, isWhole };
}

/** True if the job has read rows of the input before. */
async function isKnown({ session, spec: { job, source } }: ReadingContext): Promise<boolean> {
  const rows = session.query
    .selectFrom("state.lookup_row")
    .select("job")
    .where((row) => row.and({ job, source }));
  const found = await session.rows(rows.where("fingerprint", "is not", null).limit(1));
  return found.length > 0;
}

/** Opens the rows to read: all, or those among `pg_temp.touched`. `total` counts the rows of the input; null if all are read. */
async function openRows(
  context: ReadingContext,
  freshness: Freshness,
  isWhole: boolean,
): Promise<{ readonly opened: OpenedInput; readonly total: number | null }> {
  const { session, spec, foreign, only } = context;
  const reading: InputQuery = {
    type: spec.type,
    ranked: spec.maxRecords !== null,
    hasFingerprint: true,
  };
  const open = (more: Partial<InputQuery>) => {
    const options = { ...reading, ...more };
    return foreign
      ? openForeignInput(session, foreign, spec.input, options)
      : openLocalInput(session, spec.input, options);
  };
  if (only) {
    const opened = await open({ only: only.key });
    const isIt = `source_key = ${quoteLiteral(only.sourceKey)}`;
    return {
      opened: { ...opened, rawRows: `SELECT * FROM (${opened.rawRows}) AS one WHERE ${isIt}` },
      total: null,
    };
  }
  if (isWhole) return { opened: await open({}), total: null };
  const keys = await open({ ranked: false, isWithoutValues: true });
  const total = await findTouched(context, freshness, keys);
  if (!foreign) {
    return { opened: await open({ among: { query: "SELECT source_key FROM pg_temp.touched" } }), total };
  }
  // Another database has to be sent the keys. With more of them, it is read whole.
  const [bytes = 0] = await session.pluck<number>(
    sql`SELECT coalesce(sum(octet_length(source_key) + 3), 0)::bigint FROM pg_temp.touched`,
  );
  if (bytes <= MAX_KEYS_BYTES) {
    const keysToRead = await session.pluck<string>(sql`SELECT source_key FROM pg_temp.touched`);
    return { opened: await open({ among: { keys: keysToRead } }), total };
  }
  const opened = await open({});
  const isTouched = "coalesce(source_key, '') IN (SELECT source_key FROM pg_temp.touched)";
  return {
    opened: { ...opened, rawRows: `SELECT * FROM (${opened.rawRows}) AS every_row WHERE ${isTouched}` },
    total,
  };
}

/** Leaves the keys of the rows to read (again) in `pg_temp.touched`. Returns the number of rows in the input. */
async function findTouched(
  context: ReadingContext,
  freshness: Freshness,
  keys: OpenedInput,
): Promise<number> {
  const { session, spec } = context;
  await session.client.query("SET LOCAL enable_nestloop = off");
  await createFromInput(session, "touched", comparison(session, spec, keys));
  await session.client.query("SET LOCAL enable_nestloop TO DEFAULT");
  const { total, quiet } = await session.one<{ total: number; quiet: number }>(sql`
    SELECT coalesce(sum(rows), 0)::bigint AS total, coalesce(sum(rows) FILTER (WHERE source_key IS NULL), 0)::bigint AS quiet
    FROM pg_temp.touched`);
  await session.change(sql`DELETE FROM pg_temp.touched WHERE source_key IS NULL`);
  if (!keys.keyIsUnique) await touchShared(context, keys, quiet);
  await session.change(sql`
    INSERT INTO pg_temp.touched SELECT DISTINCT w.source_key, 1 FROM (${wantedKeys(context, freshness)}) AS w
    WHERE NOT EXISTS (SELECT FROM pg_temp.touched AS t WHERE t.source_key = w.source_key)`);
  await session.client.query("ANALYZE pg_temp.touched");
  return total;
}

/** Adds the keys that several quiet rows share: one of the rows will be used, the others rejected. */
async function touchShared(
  { session, spec }: ReadingContext,
  keys: OpenedInput,
  quiet: number,
): Promise<void> {
  const row = session.table("lookup_row");
  const [known = 0] = await session.pluck<number>(sql`
    SELECT count(*) FROM ${row} AS r WHERE ${sql.raw(isRowOf(spec))} AND r.fingerprint IS NOT NULL
      AND NOT EXISTS (SELECT FROM pg_temp.touched AS t WHERE t.source_key = r.source_key)`);
  if (quiet <= known) return;
  await createFromInput(
    session,
    "shared",
    sql`SELECT source_key, count(*) AS rows FROM (${sql.raw(keys.rawRows)}) AS r
      WHERE source_key IS NOT NULL AND ${sql.raw(ownsKey(spec.shard, "source_key"))} GROUP BY source_key HAVING count(*) > 1`,
  );
  await session.change(sql`
    INSERT INTO pg_temp.touched SELECT s.source_key, s.rows FROM pg_temp.shared AS s
    WHERE NOT EXISTS (SELECT FROM pg_temp.touched AS t WHERE t.source_key = s.source_key)`);
}

/** Keys of rows read before whose content is wanted: left by an earlier run, expired, or rejected for addresses that were found invalid. */
function wantedKeys({ session, spec }: ReadingContext, freshness: Freshness): RawBuilder<unknown> {
  const { kind, type, job, source } = spec;
  const oldest = mayBeExpired(freshness);
  const due = sql`SELECT content FROM ${session.table("lookup_due")} WHERE kind = ${kind}`;
  const wanted =
    oldest === null
      ? due
      : sql`${due} UNION ALL SELECT a.content FROM ${session.table("lookup_answer")} AS a
          WHERE a.kind = ${kind} AND ${oldest} AND NOT ${isFresh(freshness)}`;
  const row = session.table("lookup_row");
  // Rows that were rejected for lack of an address, one of which isn't invalid any more.
  const revalidated = spec.dropsInvalidEmails
    ? sql`UNION ALL SELECT x.source_key FROM ${session.table("reject")} AS x
        JOIN ${session.table("input_email")} AS e ON e.source = x.source AND e.source_key = x.source_key
        JOIN ${session.table("email_validation")} AS v ON v.email_address = e.email_address
        WHERE x.job = ${job} AND x.source = ${source} AND x.resolved_at IS NULL AND x.code IN ('no_identifier', 'not_resolvable')
          AND v.status_changed_at IS NOT NULL AND v.email_validation_status IS DISTINCT FROM 'invalid'
          AND ${sql.raw(ownsKey(spec.shard, "x.source_key"))}`
    : sql``;
  return type === "validate_emails"
    ? sql`SELECT r.source_key FROM ${session.table("input_email")} AS e JOIN ${row} AS r
        ON ${sql.raw(isRowOf(spec))} AND r.source_key = e.source_key AND r.fingerprint IS NOT NULL
        WHERE e.source = ${source} AND convert_to(e.email_address, 'UTF8') IN (${wanted})`
    : sql`SELECT r.source_key FROM ${row} AS r WHERE ${sql.raw(isRowOf(spec))} AND r.fingerprint IS NOT NULL AND r.content IN (${wanted}) ${revalidated}`;
}

/** Counts the addresses of rows that were not read again. */
async function countQuietAddresses({ session, spec }: ReadingContext): Promise<number> {
  const [addresses = 0] = await session.pluck<number>(sql`
    SELECT count(*) FROM ${session.table("input_email")} AS e JOIN ${session.table("lookup_row")} AS r
      ON ${sql.raw(isRowOf(spec))} AND r.source_key = e.source_key AND r.fingerprint IS NOT NULL
    WHERE e.source = ${spec.source} AND NOT EXISTS (SELECT FROM pg_temp.touched AS t WHERE t.source_key = e.source_key)`);
  return addresses;
}

/** Drops what {@link seeInput} left, before it is called again. */
export async function dropSeen(session: Session): Promise<void> {
  await session.client.query(
    "DROP TABLE IF EXISTS seen, seen_address, seen_content, touched, candidate_row, foreign_row, foreign_key, shared",
  );
}
