import { stringify } from "yaml";
import type { Finding } from "../failure.ts";
import { columnsText } from "../../config/template.ts";
import { count, countText, percent } from "../../figures.ts";
import { UNUSUAL_RATIO } from "../../jobs/confirm.ts";
import {
  type ColumnProfile,
  type InputProfile,
  type NormalizeEffect,
  quoteIn,
} from "../../load/inputs/profile.ts";
import { type InputSource, SAMPLE_LIMIT_MS } from "../../load/inputs/input.ts";

/** A setting that names columns, as a line of the configuration: `key: [id, "Kd Nr"]`. */
export function columnsSetting(name: string, columns: readonly string[]): string {
  return `${name}: ${columnsText(columns)}`;
}

/** A setting with SQL, as a line of the configuration. */
export function sqlSetting(name: string, sql: string): string {
  return `${name}: ${stringify(sql.replaceAll("${", "$$${"), { blockQuote: false, lineWidth: 0 }).trimEnd()}`;
}

/** A finding without its subject. */
type Line = Omit<Finding, "subject">;

const LIMIT = `${SAMPLE_LIMIT_MS / 1000} s`;

/** Findings about the rows of an input, one line each; no value of a row is in them. */
export function profileFindings(input: InputSource, profile: InputProfile): readonly Line[] {
  if (profile.keys?.rows === 0) return [{ status: "warning", message: "has no rows" }];
  if (profile.sampledRows === 0) {
    return [{ status: "warning", message: `not sampled, because reading takes more than ${LIMIT}` }];
  }
  return [
    { status: "ok", message: filledText(profile) },
    ...keyFindings(input, profile),
    ...columnFindings(input, profile),
    ...normalizeFindings(input, profile),
  ];
}

function filledText({ columns, sampledRows }: InputProfile): string {
  const shares = columns.map(
    ({ column, filled }) => `${column} ${Math.round((100 * filled) / sampledRows)} %`,
  );
  return `filled in ${countText(sampledRows, "sampled row")}: ${shares.join(", ")}`;
}

function keyFindings({ key, name }: InputSource, profile: InputProfile): readonly Line[] {
  const { keys, uniqueColumns, keyIsUnique } = profile;
  const lines: Line[] = [];
  if (keys === null) {
    if (keyIsUnique) return [];
    const message = `key: not verified to be unique, because counting takes more than ${LIMIT}`;
    return [{ status: "warning", message, hint: `a unique index on ${key.join(", ")} proves it` }];
  }
  const { rows, duplicates, withoutKey } = keys;
  const filled = key.map((column) => `${quoteIn(profile.engine).identifier(column)} is not null`);
  if (duplicates > 0) {
    const better = uniqueColumns === null ? null : columnsSetting("key", uniqueColumns);
    lines.push({
      status: duplicates > UNUSUAL_RATIO * rows ? "wrong" : "warning",
      message: `key: ${count(duplicates)} of ${countText(rows, "row")} (${percent(duplicates, rows)}) repeat the key of another row and would be rejected`,
      hint:
        better === null
          ? `add columns to \`${columnsSetting("key", key)}\` until no two rows have the same key`
          : `\`${better}\`, which an index makes unique`,
    });
  }
  if (withoutKey > 0) {
    lines.push({
      status: withoutKey > UNUSUAL_RATIO * rows ? "wrong" : "warning",
      message: `key: NULL in ${count(withoutKey)} of ${countText(rows, "row")} (${percent(withoutKey, rows)}), which would be rejected`,
      hint: `\`${sqlSetting("where", filled.join(" and "))}\` in ${name} leaves them out`,
    });
  }
  return lines;
}

function columnFindings(input: InputSource, profile: InputProfile): readonly Line[] {
  const lines: Line[] = [];
  const sql = fixedSql(input, profile);
  for (const column of profile.columns) {
    const { flaw, filled, values } = column;
    if (filled === 0) {
      lines.push({
        status: "warning",
        message: `${column.column}: empty in all sampled rows`,
        hint: removalOf(column),
      });
    } else if (flaw !== null) {
      const fact =
        flaw.values === null ? flaw.fact : `${percent(flaw.values, values)} of its values ${flaw.fact}`;
      const hint =
        flaw.expression === null || sql === null
          ? `map another column to \`${column.field}\`; a view can select or convert the right value`
          : `\`${fixedField(input, profile, column.field)}\`, with the ${"sql" in input.relation ? "columns" : "query"} below`;
      lines.push({ status: "warning", message: `${column.column}: ${fact}`, hint });
    } else {
      lines.push(...valueFindings(column, input.normalize));
    }
  }
  if (sql !== null) lines.push(sql);
  if (profile.emptyRows > 0) {
    lines.push({
      status: "warning",
      message: `${percent(profile.emptyRows, profile.sampledRows)} of the rows have no value to send and are rejected (no_identifier)`,
      hint: "this costs nothing; `where:` can leave them out",
    });
  }
  return lines;
}

/** Shares of values that `normalize` leaves out or changes; with it, only those of a column without any other value. */
function valueFindings(column: ColumnProfile, normalize: boolean): readonly Line[] {
  const { field, values, placeholders, malformed } = column;
  const unusable = placeholders + malformed;
  if (normalize && unusable < values) return [];
  const parts = [
    [placeholders, "placeholders"],
    [malformed, field === "emails" ? "without @" : "without 7 digits"],
    [column.capitals, "with capitals"],
    [column.padded, "with blanks around them"],
  ] as const;
  const shares = parts
    .filter(([number]) => number > 0)
    .map(([number, what]) => `${percent(number, values)} ${what}`);
  if (shares.length === 0) return [];
  const message = `${column.column}: ${shares.join(", ")}`;
  return [{ status: "warning", message, ...(2 * unusable > values ? { hint: removalOf(column) } : {}) }];
}

function removalOf({ column, field }: ColumnProfile): string {
  return `remove ${column} from \`${field}\``;
}

/** Name of a converted column. */
function fixedName(
  { column, field }: Pick<ColumnProfile, "column" | "field">,
  names: readonly string[],
): string {
  const base = `${column}_${field}`;
  return names.includes(base) ? `${base}_2` : base;
}

/** Line of `fields` with the converted columns of a field. */
function fixedField(input: InputSource, { columns, names }: InputProfile, field: string): string {
  const mapped = (input.fields[field] ?? []).map((name) => {
    const own = columns.find((column) => column.column === name && column.field === field);
    return own?.flaw?.expression ? fixedName(own, names) : name;
  });
  return columnsSetting(field, mapped);
}

/** The query that converts all columns at once. */
function fixedSql(input: InputSource, { columns, names, engine }: InputProfile): Line | null {
  const quote = quoteIn(engine);
  const converted = columns.flatMap((column) =>
    column.flaw?.expression
      ? [`${column.flaw.expression} as ${quote.identifier(fixedName(column, names))}`]
      : [],
  );
  if (converted.length === 0) return null;
  const what = countText(converted.length, "column");
  const list = converted.join(", ");
  if ("sql" in input.relation) {
    return { status: "warning", message: `sql: to convert ${what}, let it also return:`, hint: list };
  }
  const { table } = input.relation;
  const message = `table: to convert ${what}, use a query instead:`;
  const query = `select *, ${list} from ${quote.qualified(table)}`;
  return { status: "warning", message, hint: sqlSetting("sql", query) };
}

function normalizeFindings({ normalize }: InputSource, { effect }: InputProfile): readonly Line[] {
  const { values, leftOut, changed } = effect;
  if (leftOut + changed === 0) return [];
  if (normalize) {
    return [{ status: "ok", message: `normalize: ${effectText(effect)}` }];
  }
  return [
    {
      status: "warning",
      message: `${percent(leftOut + changed, values)} of the sampled values can be cleaned`,
      hint: `\`normalize: true\` ${effectText(effect)}`,
    },
  ];
}

/** Effect of `normalize: true` in words. */
export function effectText({ values, leftOut, changed, addresses, records }: NormalizeEffect): string {
  const saved = [
    [addresses, "address", "addresses"],
    [records, "record", "records"],
  ] as const;
  const fewer = saved
    .filter(([[before, after]]) => before > after)
    .map(([[before, after], one, many]) => `${count(before - after)} of ${countText(before, one, many)}`);
  const [verb, number] = leftOut === 0 ? ["cleans", changed] : ["leaves out", leftOut];
  const text = `${verb} ${count(number)} of ${countText(values, "sampled value")}`;
  return fewer.length === 0 ? text : `${text} and saves sending ${fewer.join(" and ")}`;
}
