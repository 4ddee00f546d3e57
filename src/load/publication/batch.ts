import { type RawBuilder, sql } from "kysely";
import { quoteIdentifier } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import {
  type CopiedFiles,
  copyToFiles,
  type FileFormat,
  keyQuery,
  type PublishableTable,
  rowQuery,
  stateTable,
  typedKey,
  writtenValue,
} from "./rows.ts";
import type { ColumnType } from "../../schemas/field.ts";

export interface ClaimedBatch {
  readonly number: number;
  readonly id: string;
  /** ID of the preceding batch; null for the first one. */
  readonly follows: string | null;
  /** Tables to replace completely; empty for a batch of keys. */
  readonly wholeTables: readonly string[];
}

interface TableFiles extends CopiedFiles {
  readonly table: PublishableTable;
  readonly content: "keys" | "rows";
}

/** Batch of keys with their rows, all read in one snapshot. */
export interface KeyBatch extends ClaimedBatch {
  readonly files: readonly TableFiles[];
  /** Changed tables. */
  readonly tables: readonly PublishableTable[];
  /** True if the batch carries changes of an erasure. */
  readonly erases: boolean;
  /** True if no other change is pending, so that the destination will equal this snapshot. */
  readonly isLast: boolean;
  /** Counts and hashes in the snapshot, if requested and the batch is the last one. */
  readonly measures: readonly SourceMeasure[] | null;
}

interface BatchOptions {
  readonly destination: string;
  /** Tables of the destination; includes `table_freshness` if it is published. */
  readonly tables: readonly PublishableTable[];
  readonly maxKeys: number;
  readonly format: FileFormat;
  readonly folder: string;
  readonly measures: boolean;
}

/** Tables whose changes come with an erasure; followed even where they are not published. */
export const ERASURE_TABLES: ReadonlySet<string> = new Set(["erasure_subject", "tombstone"]);
/** A Postgres view, which can't have these triggers. */
const FRESHNESS = "table_freshness";

/**
 * Keys that one statement takes: the server holds their places in memory, 40 MB here. Each statement passes over what
 * those before it took, so fewer would take longer.
 */
const KEYS_PER_STATEMENT = 1_000_000;

/**
 * Claims a batch and reads its rows in the caller's REPEATABLE READ transaction. Repeats an unconfirmed batch. Returns
 * null if no change is pending.
 */
export async function takeBatch(
  session: Session,
  options: BatchOptions,
): Promise<KeyBatch | ClaimedBatch | null> {
  const claimed = await claim(session, options);
  if (!claimed || claimed.wholeTables.length > 0) return claimed;
  return readBatch(session, claimed, options);
}

export function isKeyBatch(batch: KeyBatch | ClaimedBatch): batch is KeyBatch {
  return "files" in batch;
}

async function claim(session: Session, { destination, maxKeys }: BatchOptions): Promise<ClaimedBatch | null> {
  const [destinations, queue, batch] = (["destination", "dirty_key", "claimed_key"] as const).map((name) =>
    stateTable(session, name),
  );
  const drawn =
    await session.change(sql`UPDATE ${destinations} SET claimed = claimed + 1, claimed_id = gen_random_uuid()
      WHERE name = ${destination} AND claimed = confirmed
        AND (needs_freshness OR EXISTS (SELECT FROM ${queue} WHERE destination = ${destination}))`);
  const isPending = sql`destination = ${destination}`;
  const take = (rows: RawBuilder<unknown>) =>
    session.change(sql`WITH taken AS (DELETE FROM ${queue} WHERE ${rows} RETURNING table_name, key, marked_at)
      INSERT INTO ${batch} (destination, table_name, key, marked_at)
      SELECT ${destination}, table_name, key, min(marked_at) FROM taken GROUP BY table_name, key`);
  if (drawn > 0 && (await take(sql`${isPending} AND key IS NULL`)) === 0) {
    for (let left = maxKeys, taken = 1; left > 0 && taken > 0; left -= KEYS_PER_STATEMENT) {
      const most = Math.min(left, KEYS_PER_STATEMENT);
      taken = await take(sql`ctid = ANY(ARRAY(SELECT ctid FROM ${queue} WHERE ${isPending} LIMIT ${most}))`);
    }
  }
  const [claimed] =
    await session.rows<ClaimedBatch>(sql`SELECT claimed AS number, claimed_id::text AS id, confirmed_id::text AS follows,
        ARRAY(SELECT table_name FROM ${batch} WHERE destination = ${destination} AND key IS NULL ORDER BY 1) AS "wholeTables"
      FROM ${destinations} WHERE name = ${destination} AND claimed <> confirmed`);
  return claimed ?? null;
}

async function readBatch(
  session: Session,
  claimed: ClaimedBatch,
  { destination, tables, format, folder, measures }: BatchOptions,
): Promise<KeyBatch> {
  // CREATE TABLE takes no parameters.
  const isOfBatch = sql`destination = ${sql.lit(destination)}`;
  const batch = stateTable(session, "claimed_key");
  const found = await session.one<{ names: readonly string[]; is_last: boolean }>(sql`
    SELECT ARRAY(SELECT DISTINCT table_name FROM ${batch} WHERE ${isOfBatch}) AS names,
      NOT EXISTS (SELECT FROM ${stateTable(session, "dirty_key")} WHERE ${isOfBatch}) AS is_last`);
  const names = new Set(found.names);
  const isLast = found.is_last;
  const changed = tables.filter(({ name }) => names.has(name) || (isLast && name === FRESHNESS));
  const files: TableFiles[] = [];
  const copy = async (table: PublishableTable, content: TableFiles["content"], query: string) => {
    const copied = await copyToFiles(session, query, `${folder}/${table.name}-${content}`, format);
    if (copied.lines > 0) files.push({ table, content, ...copied });
  };
  for (const table of changed) {
    const { name, rootKey } = table;
    if (rootKey.length === 0) {
      await copy(table, "rows", rowQuery(session.names, table, "", format));
      continue;
    }
    // A temporary table of typed keys has statistics, which give the joins good plans.
    const keys = quoteIdentifier(`publish_keys_${name}`);
    const typed = typedKey(table, rootKey, "key").map(
      (text, i) => `${text} AS ${quoteIdentifier(rootKey[i] ?? "")}`,
    );
    await session.change(sql`CREATE TEMP TABLE ${sql.raw(keys)} ON COMMIT DROP AS SELECT DISTINCT ${sql.raw(typed.join(", "))}
      FROM ${batch} WHERE ${isOfBatch} AND table_name = ${sql.lit(name)}`);
    await session.change(sql.raw(`ANALYZE ${keys}`));
    await copy(table, "keys", keyQuery(table, keys, format));
    const using = `JOIN ${keys} AS k USING (${rootKey.map(quoteIdentifier).join(", ")})`;
    await copy(table, "rows", rowQuery(session.names, table, using, format));
  }
  return {
    ...claimed,
    files,
    tables: changed,
    erases: [...names].some((name) => ERASURE_TABLES.has(name)),
    isLast,
    measures: measures && isLast ? await readMeasures(session, tables, format) : null,
  };
}

/** True if the batch is still the claimed one, so that no other publisher can have caused the refusal. */
export async function isStillClaimed(
  session: Session,
  destination: string,
  { id }: Pick<ClaimedBatch, "id">,
): Promise<boolean> {
  const rows = await session.rows(sql`SELECT FROM ${stateTable(session, "destination")}
      WHERE name = ${destination} AND claimed_id = ${id}::uuid AND claimed <> confirmed`);
  return rows.length > 0;
}

/** Records that the destination contains a batch, and deletes the batch. Does nothing if another publisher was first. */
export async function confirmBatch(
  session: Session,
  destination: string,
  batch: Pick<ClaimedBatch, "id">,
  { rows, needsFreshness }: { readonly rows: number; readonly needsFreshness: boolean },
): Promise<void> {
  const claimed = stateTable(session, "claimed_key");
  const confirmed = await session.change(sql`UPDATE ${stateTable(session, "destination")}
      SET confirmed = claimed, confirmed_id = claimed_id, needs_freshness = ${needsFreshness},
        unreleased_since = least(unreleased_since, coalesce((SELECT min(marked_at) FROM ${claimed} WHERE destination = ${destination}), now())),
        rows_published = rows_published + ${rows}
      WHERE name = ${destination} AND claimed_id = ${batch.id}::uuid AND claimed <> confirmed`);
  if (confirmed === 0) return;
  await session.change(sql`DELETE FROM ${claimed} WHERE destination = ${destination}`);
}

/** Records that the destination's readers see everything up to its confirmed batch. */
export async function recordRelease(
  session: Session,
  destination: string,
  confirmedId: string | null,
): Promise<void> {
  await session.change(sql`UPDATE ${stateTable(session, "destination")}
      SET unreleased_since = NULL, last_published_at = CASE WHEN unreleased_since IS NULL THEN last_published_at ELSE now() END
      WHERE name = ${destination} AND confirmed_id IS NOT DISTINCT FROM ${confirmedId}::uuid`);
}

/** Count and contents of a table; see `Measure` of `src/publish`. */
export interface SourceMeasure {
  readonly table: string;
  readonly rows: bigint;
  readonly hash: string;
}

const micros = (value: string) =>
  `(extract(epoch FROM date_trunc('second', ${value}))::bigint * 1000000 + extract(microseconds FROM ${value})::bigint % 1000000)`;

/** Texts of values for the hash of a row; by default the value's own. */
const hashed: Partial<Readonly<Record<ColumnType, (value: string) => string>>> = {
  date: (value) => `(${value} - DATE '1970-01-01')`,
  timestamp: micros,
  timestamptz: micros,
  "text[]": (value) => `coalesce(array_to_string(${value}, E'\\x01'), '')`,
};

function hashText({ columns }: PublishableTable, format: FileFormat): string {
  const texts = columns.map((one) => {
    const { name, type } = one;
    const column = `t.${quoteIdentifier(name)}`;
    if (type === "json" && format === "json") return `CASE WHEN ${column} IS NOT NULL THEN '' END`;
    const value = type === "bytes" ? `encode(${column}, 'hex')` : writtenValue(one, column);
    return `${hashed[type]?.(value) ?? value}::text`;
  });
  const md5 = `md5(array_to_string(ARRAY[${texts.join(", ")}], E'\\x01', E'\\x02'))`;
  return `coalesce(sum(('x0' || left(${md5}, 15))::bit(64)::bigint), 0)::text`;
}

/** Counts the rows of tables and hashes their contents; of the view of freshness, there is nothing to compare. */
async function readMeasures(
  session: Session,
  tables: readonly PublishableTable[],
  format: FileFormat,
): Promise<readonly SourceMeasure[]> {
  const measures: SourceMeasure[] = [];
  for (const table of tables.filter(({ name }) => name !== FRESHNESS)) {
    const hash = sql.raw(hashText(table, format));
    const row = await session.one<{ rows: number; hash: string }>(
      sql`SELECT count(*) AS rows, ${hash} AS hash FROM ${session.table(table.name)} AS t`,
    );
    measures.push({ table: table.name, rows: BigInt(row.rows), hash: row.hash });
  }
  return measures;
}

/** Records the outcome of a comparison. */
export async function recordVerification(
  session: Session,
  destination: string,
  differing: readonly string[],
): Promise<void> {
  await session.change(sql`UPDATE ${stateTable(session, "destination")}
      SET last_verified_at = now(), tables_differing = ${[...differing]}::text[] WHERE name = ${destination}`);
}

/** Makes the next publication end with a batch without pending changes, even if nothing has changed. */
export async function requestSnapshot(session: Session, destination: string): Promise<void> {
  await session.change(
    sql`UPDATE ${stateTable(session, "destination")} SET needs_freshness = true WHERE name = ${destination}`,
  );
}
