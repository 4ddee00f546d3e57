import { listGroups, scalarNames } from "../person-groups.ts";
import type { LookupType } from "../warehouse.ts";
import { answerFields, answerTables, typeOf } from "./staged-columns.ts";
import { listColumn, stagedColumns, subjectsColumn } from "./staged-person.ts";
import { typedValue } from "./typed-value.ts";
import { quoteIdentifier, quoteLiteral } from "./names.ts";

/** A column that can refuse what an answer says. */
interface Fault {
  readonly table: string;
  readonly column: string;
  /** The column's declared type. */
  readonly expected: string;
  /** Whether a staged answer `s` has something else for it. */
  readonly condition: string;
}

/** Faults of columns whose staged texts are members of `of`. */
function faultsOf(table: string, columns: readonly string[], of: string): readonly Fault[] {
  return columns.flatMap((column) => {
    const expected = typeOf(table, column);
    if (expected === "text" || expected === "uuid") return [];
    const text = `${of}.${quoteIdentifier(column)}`;
    const condition = `(${text} IS NOT NULL AND ${typedValue(expected, text, true)} IS NULL)`;
    return [{ table, column, expected, condition }];
  });
}

/** The same where the texts are in a list of rows. */
function listFaults(table: string, columns: readonly string[], list: string): readonly Fault[] {
  return faultsOf(table, columns, "e").map((fault) => ({
    ...fault,
    condition: `EXISTS (SELECT 1 FROM UNNEST(s.${list}) AS e WHERE ${fault.condition})`,
  }));
}

function allFaults(type: LookupType): readonly Fault[] {
  const table = answerTables[type];
  const extra: Fault = {
    table,
    column: "_extra",
    expected: "json",
    condition: "(s.extra IS NOT NULL AND SAFE.PARSE_JSON(s.extra, wide_number_mode => 'round') IS NULL)",
  };
  const own = [...faultsOf(table, answerFields[type], "s.cells"), extra];
  if (type !== "enrich") return own;
  const lists = listGroups.flatMap((group, i) => [
    ...listFaults(group.table, stagedColumns(group), listColumn(i)),
    ...(group.subjects
      ? listFaults(group.subjects.table, group.subjects.columns.slice(1), subjectsColumn(i))
      : []),
  ]);
  return [...own, ...faultsOf("person", [...scalarNames, "_extra"], "s.scalars"), ...lists];
}

/** A query for `seq`, `record_id` and `is_match` of the staged answers with a value that can't be stored. */
export function badAnswers(stage: string, type: LookupType): string {
  const conditions = allFaults(type).map(({ condition }) => condition);
  return `SELECT s.seq, s.record_id, s.outcome = 'matched' AS is_match FROM ${stage} AS s
    WHERE s.kind = 'answer' AND (${conditions.join("\n      OR ")}) ORDER BY s.seq`;
}

/** The first column that refuses a staged answer `s`, and the type that it expects, as JSON: no value of the answer. */
export function faultDetails(type: LookupType): string {
  const cases = allFaults(type).map(
    ({ table, column, expected, condition }) =>
      `WHEN ${condition} THEN ${quoteLiteral(JSON.stringify({ table, column, expected }))}`,
  );
  return `PARSE_JSON(CASE ${cases.join("\n      ")} END)`;
}
