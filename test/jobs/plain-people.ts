import { type ColumnTypes, extraOf, isPlain, type Plain, readFields, storable } from "./plain-reading.ts";

type Row = Record<string, string | null>;

/** Expected rows of the person tables, by table. */
export type PersonTruth = Record<string, Row[]>;

/** Nested lists of an enriched record (section 2.14): table, and constant key columns. */
const LISTS: Readonly<Record<string, { readonly table: string; readonly constants: Row }>> = {
  personal_emails: { table: "person_email", constants: { email_type: "personal" } },
  professional_emails: { table: "person_email", constants: { email_type: "professional" } },
  phones: { table: "person_phone", constants: {} },
  relatives: { table: "person_relative", constants: {} },
  address_history: { table: "person_address", constants: {} },
  work_experience: { table: "person_work_experience", constants: {} },
  education_experience: { table: "person_education_experience", constants: {} },
};
const SUBJECTS = ["education_majors", "education_minors"];
const NOT_OF_THE_PERSON = new Set([
  "record_id",
  "is_match",
  "service_pid",
  "match_score",
  "validation_errors",
]);
const OURS = new Set(["_extra", "_synced_at", "_run_id", "_record_synced_at"]);

interface Person {
  scalars: Row;
  /** Rows by list. */
  readonly lists: Map<string, Row[]>;
}

/** Applies answers to matched records, oldest first. */
export function readPeople(
  results: readonly Plain[],
  tables: Readonly<Record<string, ColumnTypes>>,
): PersonTruth {
  const people = new Map<string, Person>();
  for (const result of results) {
    const pid = String(result["service_pid"]);
    const person = people.get(pid) ?? { scalars: empty(tables["person"]), lists: new Map<string, Row[]>() };
    people.set(pid, person);
    const { cells, extra } = readFields(
      result,
      without(tables["person"], OURS),
      new Set([...NOT_OF_THE_PERSON, ...Object.keys(LISTS)]),
    );
    for (const [name, { table, constants }] of Object.entries(LISTS)) {
      const list = result[name];
      if (list === undefined) continue;
      if (list !== null && !Array.isArray(list)) {
        extra[name] = list;
        continue;
      }
      const { rows, misplaced } = readList(list ?? [], { service_pid: pid, ...constants }, tables[table]);
      if (Object.keys(misplaced).length > 0) extra[name] = misplaced;
      person.lists.set(name, rows);
    }
    person.scalars = { ...person.scalars, ...cells, service_pid: pid, _extra: extraOf(extra) };
  }
  const truth: PersonTruth = {
    person: [...people.values()].map(({ scalars }) => scalars),
  };
  for (const { lists } of people.values()) {
    for (const [name, rows] of lists) (truth[LISTS[name]?.table ?? name] ??= []).push(...rows);
  }
  for (const row of Object.values(truth).flat()) fillDerived(row);
  return truth;
}

/** Fills the columns that are computed from other columns of a row. */
function fillDerived(row: Row): void {
  for (const [name, text] of Object.entries(row)) {
    const event = name.replace(/_date$/, "");
    if (`${event}_on` in row) {
      const parts = text === null ? [] : text.split("-");
      const day = [parts[0], parts[1] ?? "01", parts[2] ?? "01"].join("-");
      const isDay = /^\d{4}(-\d\d){0,2}$/.test(text ?? "") && !Number.isNaN(Date.parse(day));
      row[`${event}_on`] = isDay ? day : null;
      row[`${event}_precision`] = isDay ? (["year", "month", "day"][parts.length - 1] ?? null) : null;
    }
    const amount = name.replace(/_range$/, "");
    if (`${amount}_min` in row) {
      const isRange = /^[<$\d,+-]+$/.test(text ?? "");
      const [first = null, second = null] = (isRange && text?.replaceAll(/[$,]/g, "").match(/\d+/g)) || [];
      row[`${amount}_min`] = text?.startsWith("<") ? null : first;
      row[`${amount}_max`] = text?.startsWith("<") ? first : second;
    }
  }
}

function empty(columns: ColumnTypes = {}): Row {
  return Object.fromEntries(Object.keys(without(columns, OURS)).map((name) => [name, null]));
}

function without(columns: ColumnTypes = {}, names: ReadonlySet<string>): ColumnTypes {
  return Object.fromEntries(Object.entries(columns).filter(([name]) => !names.has(name)));
}

function readList(list: readonly unknown[], keys: Row, columns: ColumnTypes = {}) {
  const rows: Row[] = [];
  const misplaced: Plain = {};
  for (const [position, element] of list.entries()) {
    if (!isPlain(element)) {
      misplaced[position] = element;
      continue;
    }
    const own = without(columns, new Set([...OURS, ...Object.keys(keys), "position"]));
    const { cells, extra } = readFields(element, own, new Set(SUBJECTS));
    for (const field of SUBJECTS) {
      const isDeclared = field in own;
      if (isDeclared) cells[field] = "[]";
      const found = element[field];
      if (found === undefined || found === null) continue;
      if (!isDeclared || !Array.isArray(found)) {
        extra[field] = found;
        continue;
      }
      const texts = found.filter((subject) => typeof subject === "string");
      cells[field] = JSON.stringify(texts.map(storable));
      const odd = [...found.entries()].filter(([, subject]) => typeof subject !== "string");
      if (odd.length > 0) extra[field] = Object.fromEntries(odd);
    }
    rows.push({ ...empty(own), ...cells, ...keys, position: String(position), _extra: extraOf(extra) });
  }
  return { rows, misplaced };
}
