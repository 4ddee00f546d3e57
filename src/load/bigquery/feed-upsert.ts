import { type RawBuilder, sql } from "kysely";
import { tableNamed } from "../../schemas/registry.ts";
import type { Column, Table } from "../../schemas/table.ts";
import type { FeedUpsert, MissingRows } from "../feed-warehouse.ts";
import { cellText } from "./feed-rows.ts";
import { type DatasetNames, quoteIdentifier, quoteLiteral, tableId, tableText } from "./names.ts";
import { NOW, NOW_NAME } from "./session.ts";
import { type SuppressedText, suppressedText } from "./suppression.ts";
import { isDistinct, typedValue } from "./typed-value.ts";

/** What the upserts of a commit are made of. */
export interface UpsertPlace {
  readonly names: DatasetNames;
  readonly runId: string;
  /** Somebody was erased: rows that name erased people are left out. */
  readonly hasErased: boolean;
}

const suppressedName = (at: number) => `_etl_suppressed_${at}`;
const markedName = (at: number) => `_etl_marked_${at}`;
/** Rows given, inserted, updated. */
const countsName = (at: number) => `_etl_counts_${at}`;

/** Variables that tell what became of an upsert. */
export function upsertVariables(at: number): readonly string[] {
  return [
    `${countsName(at)} ARRAY<INT64> DEFAULT [0, 0, 0]`,
    ...[suppressedName(at), markedName(at)].map((name) => `${name} INT64 DEFAULT 0`),
  ];
}

/** `UpsertResult` as a STRUCT of a SELECT. */
export function upsertOutcome(at: number): string {
  const [given, inserted, updated] = [0, 1, 2].map((i) => `${countsName(at)}[OFFSET(${i})]`);
  return `STRUCT(${given} AS given, ${suppressedName(at)} AS suppressed, ${inserted} AS inserted, ${updated} AS updated, ${markedName(at)} AS marked)`;
}

/** How many rows an upsert has changed. */
export function rowsChanged(at: number): string {
  return `${countsName(at)}[OFFSET(1)] + ${countsName(at)}[OFFSET(2)] + ${markedName(at)}`;
}

/** The declared column of a table. */
export function columnNamed(table: Table, name: string): Column {
  const found = table.columns.find((c) => c.name === name);
  if (!found) throw new Error(`No column ${name} of ${table.name} is declared.`);
  return found;
}

/** Statements of one upsert; `source` has its rows. */
export function upsertStatements(
  { names, runId, hasErased }: UpsertPlace,
  upsert: FeedUpsert,
  at: number,
  source: string,
): readonly RawBuilder<unknown>[] {
  const table = tableNamed(upsert.table);
  const target = tableText(names, table.room, table.name);
  const feed = `_etl_feed_${at}`;
  const keys = table.key.map(quoteIdentifier);
  const [firstKey = ""] = keys;
  const isSame = (a: string, b: string) => keys.map((key) => `${a}.${key} = ${b}.${key}`).join(" AND ");
  const values = upsert.columns.filter((c) => !table.key.includes(c) && !upsert.keep?.includes(c));
  const isChanged =
    values
      .filter((c) => !upsert.along?.includes(c))
      .map((c) =>
        isDistinct(columnNamed(table, c).type, `t.${quoteIdentifier(c)}`, `g.${quoteIdentifier(c)}`),
      )
      .join(" OR ") || "FALSE";
  const own = ["_synced_at", ...(table.hasRunId ? ["_run_id"] : [])];
  const ownValues = [NOW_NAME, ...(table.hasRunId ? [quoteLiteral(runId)] : [])];
  const set = [
    ...values.map((c) => `${quoteIdentifier(c)} = f.${quoteIdentifier(c)}`),
    ...own.map((c, i) => `${c} = ${ownValues[i]}`),
  ];
  const given = givenRows(table, upsert.columns, source, hasErased ? suppressedText(names) : null);
  return [
    sql.raw(`CREATE TEMP TABLE ${feed} AS
      SELECT g.* EXCEPT (_ord), t.${firstKey} IS NULL AS _is_new, t.${firstKey} IS NOT NULL AND (${isChanged}) AS _is_changed
      FROM (SELECT * FROM (${given.rows}) WHERE TRUE
        QUALIFY ROW_NUMBER() OVER (PARTITION BY ${keys.join(", ")} ORDER BY _ord DESC) = 1) AS g
      LEFT JOIN ${target} AS t ON ${isSame("t", "g")}`),
    sql.raw(
      `SET ${countsName(at)} = (SELECT [COUNT(*), COUNTIF(_is_new), COUNTIF(_is_changed)] FROM ${feed})`,
    ),
    ...(given.suppressed === null ? [] : [sql.raw(`SET ${suppressedName(at)} = (${given.suppressed})`)]),
    // Not a MERGE: the emulator has none in transactions.
    sql.raw(`IF ${countsName(at)}[OFFSET(2)] > 0 THEN
      UPDATE ${target} AS t SET ${set.join(", ")} FROM ${feed} AS f WHERE f._is_changed AND ${isSame("t", "f")}; END IF`),
    sql.raw(`IF ${countsName(at)}[OFFSET(1)] > 0 THEN
      INSERT INTO ${target} (${[...upsert.columns.map(quoteIdentifier), ...own].join(", ")})
      SELECT ${[...upsert.columns.map((c) => `f.${quoteIdentifier(c)}`), ...ownValues].join(", ")}
      FROM ${feed} AS f WHERE f._is_new; END IF`),
    ...(upsert.missing
      ? [
          markMissing(names, table, upsert.missing, {
            feed,
            runId,
            isSame: `EXISTS (SELECT 1 FROM ${feed} AS f WHERE ${isSame("f", "t")})`,
          }),
          sql.raw(`SET ${markedName(at)} = @@row_count`),
        ]
      : []),
  ];
}

/** The rows with their types and without erased people, and a query that counts those. */
function givenRows(
  table: Table,
  columns: readonly string[],
  source: string,
  suppressed: SuppressedText | null,
): { readonly rows: string; readonly suppressed: string | null } {
  const people = table.people === null || typeof table.people === "string" ? null : table.people;
  const text = new Map(columns.map((name, i) => [name, cellText(i)] as const));
  const textsOf = (names: readonly string[] = []) => names.flatMap((name) => text.get(name) ?? []);
  const tests: string[] = [];
  if (suppressed && people) {
    tests.push(...textsOf(people.pids).map((one) => suppressed.pid(one)));
    tests.push(...textsOf(people.emails).map((one) => suppressed.email(one)));
    const [from, key] = [text.get("source"), text.get("source_key")];
    if (people.isOfInputRow && from && key) tests.push(suppressed.anySourceKey(from, key));
  }
  const typed = columns.map((name, i) => {
    const value = typedValue(columnNamed(table, name).type, cellText(i));
    const isCleared = suppressed && people?.clears?.includes(name) ? suppressed.pid(cellText(i)) : null;
    return `${isCleared === null ? value : `IF(${isCleared}, NULL, ${value})`} AS ${quoteIdentifier(name)}`;
  });
  const isTheirs = tests.join(" OR ");
  return {
    rows: `SELECT ${typed.join(", ")}, ord AS _ord FROM ${source}${tests.length === 0 ? "" : ` WHERE NOT (${isTheirs})`}`,
    suppressed: tests.length === 0 ? null : `SELECT COUNT(*) FROM ${source} WHERE ${isTheirs}`,
  };
}

/** Marks what lies in the scope and is not among the given rows. */
function markMissing(
  names: DatasetNames,
  table: Table,
  { scope, after, flag, since, at }: MissingRows,
  given: { readonly feed: string; readonly runId: string; readonly isSame: string },
): RawBuilder<unknown> {
  const inScope = [
    ...Object.entries(scope).map(([c, value]) => sql`t.${sql.id(c)} = ${value}`),
    ...(after ? [sql`t.${sql.id(after.column)} > CAST(${after.at} AS TIMESTAMP)`] : []),
  ];
  const isUnmarked = flag === null ? sql`t.${sql.id(since)} IS NULL` : sql`t.${sql.id(flag)}`;
  const set = [
    ...(flag === null ? [] : [sql`${sql.id(flag)} = FALSE`]),
    sql`${sql.id(since)} = CAST(${at} AS TIMESTAMP)`,
    sql`_synced_at = ${NOW}`,
    ...(table.hasRunId ? [sql`_run_id = ${given.runId}`] : []),
  ];
  return sql`UPDATE ${tableId(names, table.room, table.name)} AS t SET ${sql.join(set)}
    WHERE ${sql.join([...inScope, isUnmarked], sql` AND `)} AND NOT ${sql.raw(given.isSame)}`;
}
