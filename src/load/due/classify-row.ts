import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import { withRolePath } from "../db/session.ts";
import { readSuppression, suppressedSql } from "../erasure/suppressed-sql.ts";
import { openForeignInput, openLocalInput } from "../inputs/foreign-input.ts";
import { raw } from "../inputs/input.ts";
import type { InputSource } from "../inputs/input-source.ts";
import { contextOf } from "./lookup-selection.ts";
import type { LookupSpec } from "./lookup-spec.ts";
import type { Outcome } from "./lookup-record.ts";
import { takeReusable } from "./reuse.ts";
import { classifyInto, openClassification } from "./select-lookup.ts";

/** Key of an input row: the given values of its columns, and its stored text. */
export interface GivenKey {
  readonly key: readonly string[];
  readonly sourceKey: string;
}

/** One row of an input as a run classifies it now; for validate_emails one address of the row. */
export interface ClassifiedRow {
  /** `unchanged`, `waiting`, `suppressed`, `reject:CODE`, or the reason it is due. */
  readonly class: string;
  readonly prior: Outcome | null;
  /** Record as JSON text, for validate_emails the address; null if the row is suppressed. */
  readonly record: string | null;
  /** Key of an equal row whose fresh answer is reused; null for none. */
  readonly reusedFrom: string | null;
}

/** Classification of all rows with one key by one job. */
interface RowClasses {
  readonly rows: readonly ClassifiedRow[];
  /** True if the mapping or the parameters changed and the user hasn't decided yet. */
  readonly isUndecided: boolean;
}

/**
 * Finds the stored text of a key; null if the input has no such row. Equal keys can be written differently: `007` for an integer.
 * A text that isn't a value of the column's type throws a FixConfigurationError.
 */
export async function findSourceKey(db: Db, input: InputSource, given: GivenKey): Promise<string | null> {
  const keys = { ...input, fields: {} };
  const reading = { type: "enrich", ranked: false, isSharded: false, only: given.key } as const;
  const foreign = db.foreignOf(input);
  return db.preview((session) =>
    withRolePath(session, async () => {
      const opened = foreign
        ? await openForeignInput(session, foreign, keys, reading)
        : await openLocalInput(session, keys, reading);
      const found = await session.readOnly(() =>
        session.rows<{ source_key: string }>(sql`
          SELECT source_key FROM (${raw(opened.rawRows)}) AS found
          ORDER BY source_key = ${given.sourceKey} DESC, source_key LIMIT 1`),
      );
      return found[0]?.source_key ?? null;
    }),
  );
}

/** Classifies the rows with one key as a run does; writes nothing. */
export function classifyRow(db: Db, spec: LookupSpec, given: GivenKey): Promise<RowClasses> {
  return db.preview(async (session) => {
    const context = await contextOf(db, session, spec);
    const { rows, isUndecided } = await withRolePath(session, async () => {
      const { unmarked, decision } = await openClassification(context, given);
      await classifyInto(session, unmarked, null);
      const found = await session.rows<ClassifiedRow & { readonly source_key: string | null }>(sql`
        SELECT source_key, class, prior, CASE WHEN class <> 'suppressed' THEN record END AS record, NULL AS "reusedFrom"
        FROM pg_temp.classified_row ORDER BY class LIKE 'reject:%', record COLLATE "C"`);
      return { rows: found, isUndecided: decision === "undecided" };
    });
    if (rows.every((row) => !REUSING.includes(row.class)) || spec.type === "validate_emails")
      return { rows, isUndecided };
    await takeReusable(session, db.names, spec, null);
    const [reused] = await session.rows<{ from_key: string }>(sql`SELECT from_key FROM pg_temp.reused`);
    const reusedFrom = reused?.from_key ?? null;
    return {
      rows: rows.map((row) => (REUSING.includes(row.class) ? { ...row, reusedFrom } : row)),
      isUndecided,
    };
  });
}

/** Reasons for which a due row may reuse the answer of an equal row. */
const REUSING = ["never_answered", "content_changed", "pid_changed"];

/** True if the row itself was erased, by its key. */
export function isRowErased(db: Db, source: string, sourceKey: string): Promise<boolean> {
  return db.transaction(async (session) => {
    const { key } = await readSuppression(session, db.names, db.readErasureSecret);
    if (!key) return false;
    const isErased = suppressedSql(db.names, key).sourceKey(source, "source_key");
    const [found] = await session.rows<{ erased: boolean }>(sql`
      SELECT ${isErased} AS erased FROM (SELECT ${sourceKey}::text AS source_key) AS given`);
    return found?.erased ?? false;
  });
}
