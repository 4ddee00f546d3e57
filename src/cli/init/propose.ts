import {
  recognizeColumn,
  type Recognized,
  copyWords,
  meanings,
  peopleWords,
  wordsOf,
} from "./recognize-column.ts";
import type { InputField } from "../../config/config.ts";
import { listFields } from "../../config/schema/inputs.ts";
import type { Table, TableColumn } from "../../load/inputs/postgres-profile.ts";

/** Tables that look like people, the likeliest first. */
export function findPeople(tables: readonly Table[]): readonly Table[] {
  return tables
    .map((table) => ({ table, points: pointsOf(table) }))
    .filter(({ points }) => points >= ENOUGH)
    .toSorted((a, b) => b.points - a.points || (b.table.rows ?? 0) - (a.table.rows ?? 0))
    .map(({ table }) => table);
}

/** Points of a table's fields; a table with at least {@link ENOUGH} looks like people. */
const POINTS: Readonly<Partial<Record<keyof Fields, number>>> = {
  service_pid: 3,
  first_name: 1,
  last_name: 2,
  full_name: 1,
  emails: 3,
  phones: 2,
  linkedin_url: 2,
  address_line_1: 1,
  zipcode: 1,
};

const ENOUGH = 3;

function pointsOf(table: Table): number {
  const { fields } = proposeFields(table);
  const sum = Object.keys(fields).reduce((total, field) => total + (POINTS[field as keyof Fields] ?? 0), 0); // keys of Fields
  const namesPerson = ["last_name", "full_name", "emails", "phones", "linkedin_url", "service_pid"].some(
    (field) => field in fields,
  );
  if (!namesPerson) return 0;
  const words = wordsOf(table.name);
  const isOfPeople = words.some((word) => peopleWords.has(word));
  const isCopy = words.some((word) => copyWords.has(word));
  return sum + (isOfPeople ? 2 : 0) - (isCopy ? 3 : 0);
}

/** Lists what a table has of people: `name, 2 emails, phone, address`. */
export function summarize(table: Table): string {
  const { fields } = proposeFields(table);
  const counted = (field: "emails" | "phones", one: string) => {
    const count = fields[field]?.length ?? 0;
    return count > 1 ? `${count} ${field}` : count === 1 ? one : "";
  };
  return [
    fields.last_name || fields.full_name ? "name" : "",
    counted("emails", "email"),
    counted("phones", "phone"),
    fields.linkedin_url ? "LinkedIn" : "",
    fields.address_line_1 || fields.full_address || fields.zipcode ? "address" : "",
  ]
    .filter((part) => part !== "")
    .join(", ");
}

const ID_WORDS = /^(?:id|uuid|guid|nr|no|number|nummer|key|code|pk|sk)$/u;

/** Proposes the key: the primary key, else a unique index, else a column that is named like one. */
export function proposeKey(
  table: Table,
): { readonly value: readonly string[]; readonly reason: string } | null {
  const { columns, uniqueKeys } = table;
  const primary = uniqueKeys.find((key) => key.isPrimary);
  if (primary) return { value: primary.columns, reason: "primary key" };
  const unique = uniqueKeys.find((key) => !key.isNullable);
  if (unique) return { value: unique.columns, reason: "unique" };
  const [loose] = uniqueKeys;
  if (loose) return { value: loose.columns, reason: "unique, but rows with NULL are rejected" };
  const named = columns
    .filter(({ category, typeName }) => category === "N" || category === "S" || typeName === "uuid")
    .filter(({ name }) => ID_WORDS.test(wordsOf(name).at(-1) ?? ""))
    .toSorted((a, b) => rankOfId(a, table) - rankOfId(b, table));
  const [first] = named;
  return first ? { value: [first.name], reason: "not known to be unique" } : null;
}

/** `id`, then the table's own (`customer_id` of `customers`), then others in their order. */
function rankOfId({ name }: TableColumn, table: Table): number {
  const words = wordsOf(name);
  if (words.length === 1) return 0;
  const stem = words[0]?.slice(0, 4) ?? "";
  return wordsOf(table.name).some((word) => word.startsWith(stem)) ? 1 : 2;
}

/** Columns by field of the service. */
export type Fields = Readonly<Partial<Record<InputField, readonly string[]>>>;

/** A column that isn't mapped. */
interface Skipped {
  readonly column: string;
  readonly reason: string;
}

interface Candidate extends Recognized {
  readonly column: TableColumn;
}

const LISTS: readonly string[] = listFields;

const ADDRESS = ["address_line_1", "address_line_2", "full_address", "city", "state", "zipcode"] as const;

export function proposeFields({ columns }: Pick<Table, "columns">): {
  readonly fields: Fields;
  readonly skipped: readonly Skipped[];
} {
  const skipped: Skipped[] = [];
  const candidates: Candidate[] = [];
  for (const column of columns) {
    const recognized = recognizeColumn(column.name);
    const reason = objectionTo(column, recognized);
    if (reason !== null) skipped.push({ column: column.name, reason });
    else if (recognized) candidates.push({ ...recognized, column });
  }
  const chosen: Chosen = {
    ...chooseNames(candidates),
    ...chooseAddress(candidates),
    ...chooseLists(candidates),
  };
  for (const field of ["service_pid", "linkedin_url"] as const) {
    const [first] = named(candidates, field);
    if (first) chosen[field] = [first];
  }
  // In the order of the words, which is that of the file.
  const fields = meanings.flatMap((field) =>
    field in chosen ? [[field, chosen[field as InputField]] as const] : [],
  );
  const mapped = new Set(Object.values(chosen).flat());
  for (const candidate of candidates) {
    const { name } = candidate.column;
    if (!mapped.has(name)) skipped.push({ column: name, reason: reasonAgainst(candidate, chosen) });
  }
  const known = new Set([...mapped, ...skipped.map(({ column }) => column)]);
  for (const { name } of columns) if (!known.has(name)) skipped.push({ column: name, reason: UNKNOWN });
  return { fields: Object.fromEntries(fields), skipped };
}

const UNKNOWN = "no matching field";

/** Reason why a column with the name of a field isn't mapped. */
function reasonAgainst({ meaning }: Candidate, chosen: Chosen): string {
  const field = meaning as keyof Chosen; // without an entry for a part of a name or an address
  const [taken] = chosen[field] ?? [];
  if (taken !== undefined) return `${field} takes one column, here ${taken}`;
  if (/name/u.test(meaning)) {
    const names = Object.keys(chosen).filter((other) => /name/u.test(other));
    return names.length === 0 ? "a person needs a first and a last name" : `${names.join(", ")} are enough`;
  }
  const address = ["any_address", ...ADDRESS].some((part) => part === meaning);
  return address ? "not part of the address that is mapped" : "not needed";
}

type Chosen = Partial<Record<InputField, readonly string[]>>;

/** Reason why a column can't be mapped; null if it can, or if it is none of a person's. */
function objectionTo(column: TableColumn, recognized: Recognized | null): string | null {
  const { typeName, category } = column;
  if (/^jsonb?(?:\[\])?$/u.test(typeName)) return `${typeName}, would be sent as JSON text`;
  const meaning = recognized?.meaning;
  if (column.isArray) {
    const isOfTexts = /^(?:text|character varying|character|citext)\[\]$/u.test(typeName);
    if (meaning === undefined) return isOfTexts ? null : `${typeName}, a list`;
    if (LISTS.includes(meaning)) return isOfTexts ? null : `${typeName}, a list that isn't of texts`;
    return `${typeName}, a list, but the field takes one value`;
  }
  if (meaning === undefined || category === "S") return null;
  if (category === "N" && (meaning === "zipcode" || meaning === "phones")) {
    return `${typeName}, loses leading zeros`;
  }
  if (category === "E") return `${typeName}, an enum`;
  return meaning === "service_pid" && typeName === "uuid" ? null : `${typeName}, is not text`;
}

/** Columns of a meaning: the one with the field's exact name first, then those with the fewest other words. */
function named(candidates: readonly Candidate[], meaning: Recognized["meaning"]): readonly string[] {
  return candidates
    .filter((candidate) => candidate.meaning === meaning)
    .toSorted((a, b) => Number(isExact(b)) - Number(isExact(a)) || a.qualifiers.length - b.qualifiers.length)
    .map(({ column }) => column.name);
}

function isExact({ meaning, column }: Candidate): boolean {
  return wordsOf(column.name).join("") === meaning.replaceAll("_", "");
}

/** Fields with their column, without those that have none. */
function filled(columns: Partial<Record<InputField, string | undefined>>): Chosen {
  return Object.fromEntries(
    Object.entries(columns).flatMap(([field, column]) => (column === undefined ? [] : [[field, [column]]])),
  );
}

function chooseNames(candidates: readonly Candidate[]): Chosen {
  const [first] = named(candidates, "first_name");
  const [last] = named(candidates, "last_name");
  const [full] = named(candidates, "full_name");
  // A `user_name` is usually a login.
  const [any] = named(
    candidates.filter(({ qualifiers: words }) => !words.includes("user")),
    "any_name",
  );
  const [middle] = named(candidates, "middle_name");
  const [suffix] = named(candidates, "name_suffix");
  // `vorname` and `name`, `nombre` and `apellidos`.
  const [given, family] = [first ?? any, last ?? any];
  if ((first ?? last) !== undefined && given !== undefined && family !== undefined) {
    return filled({ first_name: given, last_name: family, middle_name: middle, name_suffix: suffix });
  }
  const whole = full ?? any;
  return whole === undefined ? filled({ first_name: first, last_name: last }) : { full_name: [whole] };
}

/** Fields of one address: of several, the one with the most columns, then the one with the shortest names. */
function chooseAddress(candidates: readonly Candidate[]): Chosen {
  const groups = Map.groupBy(
    candidates.filter(
      ({ meaning }) => meaning === "any_address" || ADDRESS.some((field) => field === meaning),
    ),
    ({ qualifiers: words }) => words.filter((word) => !/^add?r/u.test(word)).join(" "),
  );
  const size = (group: readonly Candidate[]) => new Set(group.map(({ meaning }) => meaning)).size;
  const [best = []] = [...groups]
    .toSorted(([a, inA], [b, inB]) => size(inB) - size(inA) || a.length - b.length)
    .map(([, group]) => group);
  const chosen = filled(Object.fromEntries(ADDRESS.map((field) => [field, named(best, field)[0]])));
  const [any] = named(best, "any_address");
  const isInParts = chosen.city !== undefined || chosen.zipcode !== undefined;
  if (any !== undefined && chosen.address_line_1 === undefined) {
    if (isInParts) chosen.address_line_1 = [any];
    else chosen.full_address ??= [any];
  }
  // A lone `state` or `unit` is hardly part of an address.
  if (isInParts || chosen.address_line_1 !== undefined || chosen.full_address !== undefined) return chosen;
  return {};
}

function chooseLists(candidates: readonly Candidate[]): Chosen {
  return Object.fromEntries(
    listFields.flatMap((field) => {
      const found = candidates.filter(({ meaning }) => meaning === field).map(({ column }) => column.name);
      return found.length === 0 ? [] : [[field, found] as const];
    }),
  );
}
