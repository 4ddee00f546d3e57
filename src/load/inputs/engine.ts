import type { Readable } from "node:stream";
import type { Problem } from "../../errors.ts";
import {
  BLANKS,
  columnProblems,
  columnsOfRows,
  fingerprintColumns,
  fingerprintScope,
  normalizedAddress,
  partsOf,
  partsRead,
  queryStages,
  settingOf,
  unreadable,
  unselectable,
  withoutBlanksAround,
} from "./columns.ts";
import {
  type Identifiers,
  type InputColumn,
  type InputDatabase,
  type InputQuery,
  type InputSample,
  type InputSource,
  type KeyCounts,
  type MappedColumn,
  type NamingRow,
  narrowed,
  type RowColumn,
  rowColumns,
  SAMPLE_ELEMENTS,
  SAMPLE_LENGTH,
  SAMPLE_ROWS,
  type SampledRow,
  selectRows,
} from "./input.ts";

/** Lists of texts by the names under which {@link InputEngine.isIn} refers to them. */
export type TextLists = Readonly<Record<string, readonly string[]>>;

/** SQL and connection of another database's engine. What its SQL has in common with others stands in {@link openSqlInputs}. */
export interface InputEngine {
  readonly name: InputSample["engine"];
  quoteIdentifier(name: string): string;
  quoteLiteral(text: string): string;
  quoteQualified(parts: readonly string[]): string;
  /** Converts a value to text, null to null: equal to Postgres's text, so that equal values have equal hashes. */
  text(value: string, typeName: string): string;
  /** Reads a text as a value of a type; null if it is none. */
  value(text: string, typeName: string): string;
  /** List of its elements `e` as an expression of each; `where` is a condition for them. */
  list(list: string, element: string, options?: { readonly where?: string; readonly limit?: number }): string;
  /** JSON of a text, or of a list of texts. */
  json(value: string): string;
  /** Text of Postgres's `bytea` with the MD5 hash of the texts as a JSON list. */
  hash(texts: readonly string[]): string;
  /** True if a text is in the list of that name. */
  isIn(text: string, name: string): string;
  /** True if the list of that name has one of the elements. */
  hasAny(list: string, element: string, name: string): string;
  /** The text of a list of one. */
  single(name: string): string;
  /** Expression that puts keys into the same random order each time. */
  shuffled(key: string): string;
  /** Returns the columns of an input; reads no rows. */
  describe(input: InputSource): Promise<readonly InputColumn[]>;
  /** Verifies a query; reads no rows. */
  validate(text: string): Promise<unknown>;
  /** Remedy for a failure of the user's query or table; null for other failures. */
  hintFor(error: unknown, setting: "table" | "sql"): string | null;
  rows<Row>(text: string, lists: TextLists): Promise<readonly Row[]>;
  /** Rows of a query that ends within {@link SAMPLE_LIMIT_MS}, else null. */
  rowsInTime<Row>(text: string): Promise<readonly Row[] | null>;
  /** Rows in the text format of Postgres's COPY. */
  copyText(text: string, columns: readonly RowColumn[], lists: TextLists): Readable;
}

/** An input with its columns, in its engine. */
interface Described {
  readonly engine: InputEngine;
  readonly input: InputSource;
  readonly columns: readonly InputColumn[];
}

/** Column names of these engines are case-insensitive. */
function finderOf(columns: readonly InputColumn[]) {
  return (name: string) => columns.find((c) => c.name.toLowerCase() === name.toLowerCase());
}

const typeOf = ({ columns }: Described, name: string) => finderOf(columns)(name)?.typeName ?? "STRING";
const columnText = (described: Described, name: string) =>
  described.engine.text(`input_row.${described.engine.quoteIdentifier(name)}`, typeOf(described, name));

/** Text of a mapped column, or its list of texts without nulls. The warehouse leaves out blank ones. */
function partText(described: Described, { column, isArray }: MappedColumn): string {
  const { engine } = described;
  if (!isArray) return columnText(described, column);
  const element = engine.text("e", typeOf(described, column));
  return engine.list(`input_row.${engine.quoteIdentifier(column)}`, element, {
    where: `${element} IS NOT NULL`,
  });
}

/** Fingerprint of a row: hash of the texts of its mapped columns. NULL and '' are equal. */
function fingerprint(described: Described): string {
  const { engine, input, columns } = described;
  const isList = (name: string) => finderOf(columns)(name)?.isArray ?? false;
  const names = fingerprintColumns(input);
  const scope = fingerprintScope(
    input,
    names.filter(isList).map((name) => finderOf(columns)(name)?.name ?? name),
  );
  const texts = names.map((name) =>
    isList(name)
      ? engine.json(
          engine.list(`input_row.${engine.quoteIdentifier(name)}`, engine.text("e", typeOf(described, name))),
        )
      : `COALESCE(${columnText(described, name)}, '')`,
  );
  return engine.hash([engine.quoteLiteral(scope.toString("hex")), ...texts]);
}

type RowOptions = Pick<InputQuery, "ranked" | "hasFingerprint" | "among">;

/** Lists of a reading: the keys of rows, or one for each value of a key. */
const listsOf = ({ among, only = [] }: Pick<InputQuery, "among" | "only">): TextLists => ({
  ...(among && "keys" in among ? { among: among.keys } : {}),
  ...Object.fromEntries(only.map((value, i) => [`key_${i}`, [value]])),
});

/** Query for the raw rows of an input. */
function rawSelect(described: Described, parts: readonly MappedColumn[], options: RowOptions): string {
  const { engine, input } = described;
  return selectRows(input, parts, options, {
    quoteQualified: (parts) => engine.quoteQualified(parts),
    keyText: (name) => columnText(described, name),
    jsonArray: (texts) =>
      `CASE WHEN ${texts.map((text) => `${text} IS NOT NULL`).join(" AND ")} THEN CONCAT('[', ${texts.map((text) => engine.json(text)).join(", ', ', ")}, ']') END`,
    partText: (part) => partText(described, part),
    fingerprint: () => fingerprint(described),
    isAmong: (key) => engine.isIn(key, "among"),
  });
}

/** Narrows an input to the rows with a key, or replaces it by that key in the columns' types: null for a text that is no such value. */
function narrowToKey(described: Described, { only, isCast }: Pick<InputQuery, "only" | "isCast">): Described {
  const { engine, input } = described;
  if (!only) return described;
  const values = input.key.map((name, i) => engine.value(engine.single(`key_${i}`), typeOf(described, name)));
  if (isCast) {
    const cast = input.key.map((name, i) => `${values[i]} AS ${engine.quoteIdentifier(name)}`);
    return { ...described, input: { ...input, relation: { sql: `SELECT ${cast.join(", ")}` }, where: null } };
  }
  const conditions = input.key.map(
    (name, i) => `${columnText(described, name)} = ${engine.text(values[i] ?? "", typeOf(described, name))}`,
  );
  return { ...described, input: narrowed(input, conditions.join(" AND ")) };
}

async function describe(engine: InputEngine, input: InputSource): Promise<Described> {
  return { engine, input, columns: await engine.describe(input) };
}

async function checkInput(engine: InputEngine, input: InputSource): Promise<readonly Problem[]> {
  let described: Described;
  try {
    described = { ...(await describe(engine, { ...input, where: null })), input };
  } catch (error) {
    const hint = engine.hintFor(error, settingOf(input));
    if (hint === null) throw error;
    return [unreadable(input, error, hint)];
  }
  const { columns } = described;
  const find = finderOf(columns);
  const problems = columnProblems(input, columns, find);
  if (problems.length > 0) return problems;
  for (const stage of queryStages(input)) {
    const staged = { ...described, input: stage.input };
    try {
      await engine.validate(rawSelect(staged, partsOf(input, "enrich", find), { ranked: true }));
    } catch (error) {
      if (engine.hintFor(error, settingOf(input)) === null) throw error;
      return [unselectable(stage, error)];
    }
  }
  return [];
}

/** Finds the rows of an input with one of these keys, addresses or PIDs; scans the input once. */
async function findRows(
  engine: InputEngine,
  input: InputSource,
  wanted: Identifiers,
): Promise<readonly NamingRow[]> {
  const { emails, pids } = wanted;
  const keys = wanted.rows.filter(({ source }) => source === input.name).map(({ sourceKey }) => sourceKey);
  if (keys.length + emails.length + pids.length === 0) return [];
  const lists = { keys, emails, pids };
  const described = await describe(engine, input);
  const parts = partsOf(input, "enrich", finderOf(described.columns));
  const named = (field: string) => parts.filter((part) => part.field === field);
  const address = (text: string) => normalizedAddress(text, `TRIM(${text}, ${engine.quoteLiteral(BLANKS)})`);
  const conditions = [
    engine.isIn("source_key", "keys"),
    ...named("emails").map(({ name, isArray }) =>
      isArray ? engine.hasAny(name, address("e"), "emails") : engine.isIn(address(name), "emails"),
    ),
    ...named("service_pid").map(({ name }) => engine.isIn(name, "pids")),
  ];
  const rows = await engine.rows<Readonly<Record<string, SampledRow[number]>>>(
    `SELECT * FROM (${rawSelect(described, parts, { ranked: false })}) AS r WHERE ${conditions.join(" OR ")}`,
    lists,
  );
  const textsOf = (row: (typeof rows)[number], field: string) =>
    named(field)
      .flatMap(({ name }) => [row[name] ?? []].flat())
      .filter((text) => text !== null)
      .filter((text) => withoutBlanksAround(text) !== "");
  return rows.map((row) => ({
    sourceKey: row["source_key"] as string | null, // a text, as selected
    emails: textsOf(row, "emails"),
    pids: textsOf(row, "service_pid"),
  }));
}

const cut = (text: string) => `LEFT(${text}, ${SAMPLE_LENGTH})`;

/** Counts the keys of an input and reads a sample of its rows. */
async function sampleInput(engine: InputEngine, input: InputSource): Promise<InputSample> {
  const described = await describe(engine, input);
  const { columns } = described;
  const options = { ranked: false };
  const counts = ["rows", "withoutKey", "duplicates"].map((name) => engine.quoteIdentifier(name));
  const found = await engine.rowsInTime<Readonly<Record<keyof KeyCounts, number | string>>>(
    `SELECT COALESCE(SUM(n), 0) AS ${counts[0]}, COALESCE(SUM(CASE WHEN source_key IS NULL THEN n END), 0) AS ${counts[1]},
        COALESCE(SUM(CASE WHEN source_key IS NOT NULL THEN n - 1 END), 0) AS ${counts[2]}
      FROM (SELECT source_key, COUNT(*) AS n FROM (${rawSelect(described, [], options)}) AS r GROUP BY source_key) AS k`,
  );
  const [keys] = found ?? [];
  const parts = partsOf(input, "enrich", finderOf(columns));
  const values = parts.map(({ name, isArray }) =>
    isArray
      ? `${engine.list(name, cut("e"), { limit: SAMPLE_ELEMENTS })} AS ${name}`
      : `${cut(name)} AS ${name}`,
  );
  const sampled = await engine.rowsInTime<Readonly<Record<string, SampledRow[number]>>>(
    `SELECT ${["1 AS one", ...values].join(", ")} FROM (${rawSelect(described, parts, options)}) AS r
      ORDER BY ${engine.shuffled("source_key")} LIMIT ${SAMPLE_ROWS}`,
  );
  const rows = (sampled ?? []).map((row): SampledRow => parts.map(({ name }) => row[name] ?? null));
  return {
    engine: engine.name,
    keys: keys
      ? { rows: Number(keys.rows), withoutKey: Number(keys.withoutKey), duplicates: Number(keys.duplicates) }
      : null,
    keyIsUnique: false,
    uniqueColumns: null,
    columns: columnsOfRows(parts, rows, (column) => typeOf(described, column)),
    sampledRows: rows.length,
    names: columns.map(({ name }) => name),
  };
}

/**
 * Inputs of an engine without unique indexes. `open` gives its engine to `work`, for an input of a form that it can query;
 * `isSorted` if `work` reads all rows in order.
 */
export function openSqlInputs(
  open: <Result>(
    input: InputSource,
    work: (engine: InputEngine, input: InputSource) => Promise<Result>,
    isSorted?: boolean,
  ) => Promise<Result>,
  close: () => Promise<void>,
): InputDatabase {
  return {
    checkInput: (given) => open(given, checkInput),
    describe: (given) => open(given, (engine, input) => engine.describe({ ...input, where: null })),
    sampleInput: (given) => open(given, sampleInput),
    findRows: (given, wanted) => open(given, (engine, input) => findRows(engine, input, wanted)),
    read: (given, reading, work) => {
      const read = async (engine: InputEngine, input: InputSource) => {
        const described = await describe(engine, input);
        const parts = partsRead(input, reading, finderOf(described.columns));
        const text = rawSelect(narrowToKey(described, reading), parts, reading);
        const columns = rowColumns(input, parts, reading);
        const copyText = () => engine.copyText(text, columns, listsOf(reading));
        return work({ parts, keyIsUnique: false, columns, copyText });
      };
      return open(given, read, reading.ranked && given.orderBy !== null);
    },
    close,
  };
}
