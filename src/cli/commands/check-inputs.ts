import { stringify } from "yaml";
import { type Finding, finding } from "./findings.ts";
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
function columnsSetting(name: string, columns: readonly string[]): string {
  return `${name}: ${columnsText(columns)}`;
}

export function sqlSetting(name: string, sql: string): string {
  return `${name}: ${stringify(sql.replaceAll("${", "$$${"), { blockQuote: false, lineWidth: 0 }).trimEnd()}`;
}

const LIMIT = `${SAMPLE_LIMIT_MS / 1000} s`;

/** Findings about the rows of an input, one line each; no value of a row is in them. */
export function profileFindings(
  subject: string,
  input: InputSource,
  profile: InputProfile,
): readonly Finding[] {
  const { keys, sampledRows, emptyRows, columns, effect } = profile;
  const findings: Finding[] = [];
  const warn = (message: string, hint = "") => findings.push(finding(subject, "warning", message, hint));
  if (keys?.rows === 0) {
    warn("has no rows");
    return findings;
  }
  if (sampledRows === 0) {
    warn(`not sampled, because reading takes more than ${LIMIT}`);
    return findings;
  }
  const shares = columns.map(
    ({ column, filled }) => `${column} ${Math.round((100 * filled) / sampledRows)}%`,
  );
  const filledText = `non-empty in a sample of ${countText(sampledRows, "row")}: ${shares.join(", ")}`;
  findings.push(finding(subject, "ok", filledText), ...keyFindings(subject, input, profile));
  for (const column of columns) {
    const line = columnLine(column, input, profile);
    if (line !== null) warn(...line);
  }
  const query = conversionOf(input, profile);
  if (query !== null) warn(...query);
  if (emptyRows > 0) {
    const share = percent(emptyRows, sampledRows);
    const message = `${share} of the rows have no value to send and are rejected (no_identifier)`;
    warn(message, "this costs nothing; `where:` can exclude them");
  }
  const cleaned = effect.leftOut + effect.changed;
  if (cleaned > 0 && input.normalize) {
    findings.push(finding(subject, "ok", `normalize: ${effectText(effect)}`));
  } else if (cleaned > 0) {
    const message = `normalize is off; it would change or drop ${percent(cleaned, effect.values)} of the sampled values`;
    warn(message, `\`normalize: true\` ${effectText(effect)}`);
  }
  return findings;
}

function keyFindings(subject: string, { key, name }: InputSource, profile: InputProfile): readonly Finding[] {
  const { keys, uniqueColumns, keyIsUnique, engine } = profile;
  if (keys === null) {
    const message = `key: not verified to be unique, because counting takes more than ${LIMIT}`;
    const hint = `a unique index on ${key.join(", ")} proves it`;
    return keyIsUnique ? [] : [finding(subject, "warning", message, hint)];
  }
  const { rows, duplicates, withoutKey } = keys;
  const filled = key.map((column) => `${quoteIn(engine).identifier(column)} is not null`);
  const shareOf = (part: number) => `${count(part)} of ${countText(rows, "row")} (${percent(part, rows)})`;
  const rejected = (part: number, message: string, hint: string) =>
    part === 0 ? [] : [finding(subject, part > UNUSUAL_RATIO * rows ? "wrong" : "warning", message, hint)];
  const repeated = `key: ${shareOf(duplicates)} repeat the key of another row and would be rejected`;
  const unique =
    uniqueColumns === null
      ? `add columns to \`${columnsSetting("key", key)}\` until no two rows have the same key`
      : `\`${columnsSetting("key", uniqueColumns)}\`, which an index makes unique`;
  const missing = `key: NULL in ${shareOf(withoutKey)}, which would be rejected`;
  const where = `\`${sqlSetting("where", filled.join(" and "))}\` in ${name} excludes them`;
  return [...rejected(duplicates, repeated, unique), ...rejected(withoutKey, missing, where)];
}

/** Message and hint about a mapped column; null if it is sent as it should be. */
function columnLine(
  column: ColumnProfile,
  input: InputSource,
  profile: InputProfile,
): readonly [message: string, hint: string] | null {
  const { column: name, field, flaw, filled, values, placeholders, malformed } = column;
  const removal = `remove ${name} from \`${field}\``;
  if (filled === 0) return [`${name}: empty in all sampled rows`, removal];
  if (flaw !== null) {
    const fact =
      flaw.values === null ? flaw.fact : `${percent(flaw.values, values)} of its values ${flaw.fact}`;
    const place = "sql" in input.relation ? "columns" : "query";
    const hint =
      flaw.expression === null
        ? `map another column to \`${field}\`; a view can select or convert the right value`
        : `\`${convertedField(input, profile, field)}\`, with the ${place} below`;
    return [`${name}: ${fact}`, hint];
  }
  const unusable = placeholders + malformed;
  // Left out by `normalize`, unless the column has nothing else.
  if (input.normalize && unusable < values) return null;
  const shares = (
    [
      [placeholders, "placeholders"],
      [malformed, field === "emails" ? "without @" : "without 7 digits"],
      [column.capitals, "with capital letters"],
      [column.padded, "with leading or trailing spaces"],
    ] as const
  )
    .filter(([number]) => number > 0)
    .map(([number, what]) => `${percent(number, values)} ${what}`);
  if (shares.length === 0) return null;
  return [`${name}: ${shares.join(", ")}`, 2 * unusable > values ? removal : ""];
}

function convertedName({ column, field }: ColumnProfile, { names }: InputProfile): string {
  const base = `${column}_${field}`;
  return names.includes(base) ? `${base}_2` : base;
}

/** Line of `fields` with the converted columns of a field. */
function convertedField(input: InputSource, profile: InputProfile, field: string): string {
  const mapped = (input.fields[field] ?? []).map((name) => {
    const own = profile.columns.find((column) => column.column === name && column.field === field);
    return own?.flaw?.expression ? convertedName(own, profile) : name;
  });
  return columnsSetting(field, mapped);
}

/** Message and hint with the query that converts all columns at once; null if none can be converted. */
function conversionOf(
  { relation }: InputSource,
  profile: InputProfile,
): readonly [message: string, hint: string] | null {
  const quote = quoteIn(profile.engine);
  const converted = profile.columns.flatMap((column) =>
    column.flaw?.expression
      ? [`${column.flaw.expression} as ${quote.identifier(convertedName(column, profile))}`]
      : [],
  );
  if (converted.length === 0) return null;
  const what = countText(converted.length, "column");
  const list = converted.join(", ");
  if ("sql" in relation) return [`sql: to convert ${what}, let it also return:`, list];
  const query = `select *, ${list} from ${quote.qualified(relation.table)}`;
  return [`table: to convert ${what}, use a query instead:`, sqlSetting("sql", query)];
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
  const [verb, number] = leftOut === 0 ? ["cleans", changed] : ["drops", leftOut];
  const text = `${verb} ${count(number)} of ${countText(values, "sampled value")}`;
  return fewer.length === 0 ? text : `${text} and avoids sending ${fewer.join(" and ")}`;
}
