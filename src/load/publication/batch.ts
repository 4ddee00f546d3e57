import { sql } from "kysely";
import { type SchemaNames, quoteIdentifier, quoteLiteral } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import { type CopiedFiles, copyToFiles, type FileFormat } from "./copy-files.ts";
import { readMeasures, type SourceMeasure } from "./measures.ts";
import { type PublishableTable, stateText } from "./names.ts";
import { keyColumns, keyQuery, rowQuery } from "./row-query.ts";

/** A claimed batch. */
export interface ClaimedBatch {
  readonly number: number;
  readonly id: string;
  /** ID of the preceding batch; null for the first one. */
  readonly follows: string | null;
  /** Tables to replace completely; empty for a batch of keys. */
  readonly wholeTables: readonly string[];
}

/** Files of one table. */
interface TableFiles extends CopiedFiles {
  readonly table: PublishableTable;
  readonly content: "keys" | "rows";
}

/** Batch of keys with their rows, all read in one snapshot. */
export interface KeyBatch extends ClaimedBatch {
  readonly files: readonly TableFiles[];
  /** Changed tables: roots with their children. */
  readonly tables: readonly PublishableTable[];
  /** True if the batch carries changes of an erasure. */
  readonly erases: boolean;
  /** True if no other change is pending, so that the destination will equal this snapshot. */
  readonly isLast: boolean;
  /** Counts and hashes in the snapshot, if requested and the batch is the last one. */
  readonly measures: readonly SourceMeasure[] | null;
}

/** Options of {@link takeBatch}. */
interface BatchOptions {
  readonly destination: string;
  /** Tables of the destination, roots before children; includes `table_freshness` if it is published. */
  readonly tables: readonly PublishableTable[];
  readonly maxKeys: number;
  readonly format: FileFormat;
  /** Folder for the files. */
  readonly folder: string;
  readonly measures: boolean;
}

/** Tables whose changes come with an erasure; followed even where they are not published. */
export const ERASURE_TABLES: ReadonlySet<string> = new Set(["erasure_subject", "tombstone"]);
/** A Postgres view, which can't have these triggers. */
const FRESHNESS = "table_freshness";

/**
 * Claims a batch and reads its rows in the caller's REPEATABLE READ transaction. Repeats an unconfirmed batch. Returns
 * null if no change is pending.
 */
export async function takeBatch(
  session: Session,
  names: SchemaNames,
  options: BatchOptions,
): Promise<KeyBatch | ClaimedBatch | null> {
  const claimed = await claim(session, names, options);
  if (!claimed || claimed.wholeTables.length > 0) return claimed;
  return readBatch(session, names, claimed, options);
}

/** True for a batch of keys. */
export function isKeyBatch(batch: KeyBatch | ClaimedBatch): batch is KeyBatch {
  return "files" in batch;
}

async function claim(
  session: Session,
  names: SchemaNames,
  { destination, maxKeys }: BatchOptions,
): Promise<ClaimedBatch | null> {
  const [destinations, queue, batch] = (["destination", "dirty_key", "publication_batch"] as const).map(
    (name) => sql.raw(stateText(names, name)),
  );
  const drawn = await session.change(
    sql`UPDATE ${destinations} SET claimed = claimed + 1, claimed_id = gen_random_uuid()
      WHERE name = ${destination} AND claimed = confirmed
        AND (needs_freshness OR EXISTS (SELECT FROM ${queue} WHERE destination = ${destination}))`,
  );
  if (drawn > 0) {
    const whole = await session.change(
      sql`WITH whole AS (DELETE FROM ${queue} WHERE destination = ${destination} AND key IS NULL RETURNING table_name, marked_at)
        INSERT INTO ${batch} (destination, table_name, key, marked_at)
        SELECT ${destination}, table_name, NULL, min(marked_at) FROM whole GROUP BY table_name`,
    );
    if (whole === 0) {
      await session.change(
        sql`WITH taken AS (DELETE FROM ${queue} WHERE ctid = ANY(ARRAY(
              SELECT ctid FROM ${queue} WHERE destination = ${destination} LIMIT ${maxKeys})) RETURNING table_name, key, marked_at)
          INSERT INTO ${batch} (destination, table_name, key, marked_at)
          SELECT ${destination}, table_name, key, min(marked_at) FROM taken GROUP BY table_name, key`,
      );
    }
  }
  const [claimed] = await session.rows<ClaimedBatch>(
    sql`SELECT claimed AS number, claimed_id::text AS id, confirmed_id::text AS follows,
        ARRAY(SELECT table_name FROM ${batch} WHERE destination = ${destination} AND key IS NULL ORDER BY 1) AS "wholeTables"
      FROM ${destinations} WHERE name = ${destination} AND claimed <> confirmed`,
  );
  return claimed ?? null;
}

async function readBatch(
  session: Session,
  names: SchemaNames,
  claimed: ClaimedBatch,
  { destination, tables, format, folder, measures }: BatchOptions,
): Promise<KeyBatch> {
  const isOfBatch = `destination = ${quoteLiteral(destination)}`;
  const [found] = await session.rows<{ roots: readonly string[]; is_last: boolean }>(
    sql`SELECT ARRAY(SELECT DISTINCT table_name FROM ${sql.raw(stateText(names, "publication_batch"))} WHERE ${sql.raw(isOfBatch)}) AS roots,
      NOT EXISTS (SELECT FROM ${sql.raw(stateText(names, "dirty_key"))} WHERE ${sql.raw(isOfBatch)}) AS is_last`,
  );
  const roots = new Set(found?.roots);
  const isLast = found?.is_last ?? false;
  const changed = tables.filter((t) => roots.has(t.root) || (isLast && t.name === FRESHNESS));
  const files: TableFiles[] = [];
  const copy = async (table: PublishableTable, content: TableFiles["content"], query: string) => {
    const copied = await copyToFiles(session, query, `${folder}/${table.name}-${content}`, format);
    if (copied.lines > 0) files.push({ table, content, ...copied });
  };
  for (const name of roots) {
    const group = changed.filter((table) => table.root === name);
    const [first] = group;
    if (!first) continue;
    if (first.rootKey.length === 0) {
      await copy(first, "rows", rowQuery(names, first, "", format));
      continue;
    }
    // A temporary table of typed keys has statistics, which give the joins good plans.
    const keys = quoteIdentifier(`publish_keys_${name}`);
    await session.change(
      sql.raw(
        `CREATE TEMP TABLE ${keys} ON COMMIT DROP AS SELECT DISTINCT ${keyColumns(first, "key")}
         FROM ${stateText(names, "publication_batch")} WHERE ${isOfBatch} AND table_name = ${quoteLiteral(name)}`,
      ),
    );
    await session.change(sql.raw(`ANALYZE ${keys}`));
    await copy(first, "keys", keyQuery(first, keys, format));
    const using = `JOIN ${keys} AS k USING (${first.rootKey.map(quoteIdentifier).join(", ")})`;
    for (const table of group) await copy(table, "rows", rowQuery(names, table, using, format));
  }
  const freshness = changed.find(({ name }) => name === FRESHNESS);
  if (freshness) await copy(freshness, "rows", rowQuery(names, freshness, "", format));
  return {
    ...claimed,
    files,
    tables: changed,
    erases: [...roots].some((root) => ERASURE_TABLES.has(root)),
    isLast,
    measures:
      measures && isLast
        ? await readMeasures(
            session,
            names,
            tables.filter(({ name }) => name !== FRESHNESS),
            format,
          )
        : null,
  };
}

/** True if the batch is still the claimed one, so that no other publisher can have caused the refusal. */
export async function isStillClaimed(
  session: Session,
  names: SchemaNames,
  destination: string,
  { id }: Pick<ClaimedBatch, "id">,
): Promise<boolean> {
  const rows = await session.rows(
    sql`SELECT FROM ${sql.raw(stateText(names, "destination"))}
      WHERE name = ${destination} AND claimed_id = ${id}::uuid AND claimed <> confirmed`,
  );
  return rows.length > 0;
}

/** Records that the destination contains a batch, and deletes the batch. Does nothing if another publisher was first. */
export async function confirmBatch(
  session: Session,
  names: SchemaNames,
  destination: string,
  batch: Pick<ClaimedBatch, "id">,
  { rows, needsFreshness }: { readonly rows: number; readonly needsFreshness: boolean },
): Promise<void> {
  const confirmed = await session.change(
    sql`UPDATE ${sql.raw(stateText(names, "destination"))}
      SET confirmed = claimed, confirmed_id = claimed_id, is_released = false, needs_freshness = ${needsFreshness},
        rows_published = rows_published + ${rows}, last_published_at = now()
      WHERE name = ${destination} AND claimed_id = ${batch.id}::uuid AND claimed <> confirmed`,
  );
  if (confirmed === 0) return;
  await session.change(
    sql`DELETE FROM ${sql.raw(stateText(names, "publication_batch"))} WHERE destination = ${destination}`,
  );
}

/** Records that the destination's readers see everything up to its confirmed batch. */
export async function recordRelease(
  session: Session,
  names: SchemaNames,
  destination: string,
  confirmedId: string | null,
): Promise<void> {
  await session.change(
    sql`UPDATE ${sql.raw(stateText(names, "destination"))} SET is_released = true
      WHERE name = ${destination} AND confirmed_id IS NOT DISTINCT FROM ${confirmedId}::uuid`,
  );
}
