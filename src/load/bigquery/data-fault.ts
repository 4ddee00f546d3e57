import { listGroups, scalarNames } from "../person-groups.ts";
import type { LookupType } from "../warehouse.ts";
import { answerFields, answerTables, typeOf } from "./staged-columns.ts";
import { listColumn, stagedColumns, subjectsColumn } from "./staged-person.ts";
import { typedValue } from "./typed-value.ts";
import { quoteIdentifier } from "./names.ts";

/** Whether a staged text is no value of the column's type. */
function isBad(table: string, column: string, text: string): string | null {
  const type = typeOf(table, column);
  if (type === "text" || type === "uuid") return null;
  return `(${text} IS NOT NULL AND ${typedValue(type, text, true)} IS NULL)`;
}

function anyBad(table: string, columns: readonly string[], of: string): readonly string[] {
  return columns.flatMap((column) => isBad(table, column, `${of}.${quoteIdentifier(column)}`) ?? []);
}

/** A query for `seq`, `record_id` and `is_match` of the staged answers with a value that can't be stored. */
export function badAnswers(stage: string, type: LookupType): string {
  const own = [
    ...anyBad(answerTables[type], answerFields[type], "s.cells"),
    "(s.extra IS NOT NULL AND SAFE.PARSE_JSON(s.extra, wide_number_mode => 'round') IS NULL)",
  ];
  const ofPerson =
    type !== "enrich"
      ? []
      : [
          ...anyBad("person", [...scalarNames, "_extra"], "s.scalars"),
          ...listGroups.flatMap((group, i) => {
            const bad = anyBad(group.table, stagedColumns(group), "e");
            const below = group.subjects
              ? anyBad(group.subjects.table, group.subjects.columns.slice(1), "e")
              : [];
            return [
              ...(bad.length > 0
                ? [`EXISTS (SELECT 1 FROM UNNEST(s.${listColumn(i)}) AS e WHERE ${bad.join(" OR ")})`]
                : []),
              ...(below.length > 0
                ? [`EXISTS (SELECT 1 FROM UNNEST(s.${subjectsColumn(i)}) AS e WHERE ${below.join(" OR ")})`]
                : []),
            ];
          }),
        ];
  return `SELECT s.seq, s.record_id, s.outcome = 'matched' AS is_match FROM ${stage} AS s
    WHERE s.kind = 'answer' AND (${[...own, ...ofPerson].join("\n      OR ")}) ORDER BY s.seq`;
}
