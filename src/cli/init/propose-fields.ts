import type { InputField } from "../../config/config.ts";
import { listFields } from "../../config/schema/inputs.ts";
import type { Table, TableColumn } from "../../load/inputs/browse.ts";
import { type Recognized, recognizeColumn } from "./recognize-column.ts";

/** Columns by field of the service. */
export type Fields = Readonly<Partial<Record<InputField, readonly string[]>>>;

/** A column that looks like a field but isn't mapped. */
export interface Skipped {
  readonly column: string;
  readonly reason: string;
}

/** Proposed mapping of a table's columns. */
interface FieldProposal {
  readonly fields: Fields;
  readonly skipped: readonly Skipped[];
}

interface Candidate extends Recognized {
  readonly column: TableColumn;
}

const LISTS: readonly string[] = listFields;
const ADDRESS = [
  "address_line_1",
  "address_line_2",
  "any_address",
  "full_address",
  "city",
  "state",
  "zipcode",
];

/** Order of fields in the file. */
const ORDER: readonly InputField[] = [
  "service_pid",
  "first_name",
  "middle_name",
  "last_name",
  "full_name",
  "name_suffix",
  "emails",
  "phones",
  "linkedin_url",
  "full_address",
  "address_line_1",
  "address_line_2",
  "city",
  "state",
  "zipcode",
];

/** Proposes columns by their names and types. */
export function proposeFields({ columns }: Pick<Table, "columns">): FieldProposal {
  const skipped: Skipped[] = [];
  const candidates: Candidate[] = [];
  for (const column of columns) {
    const recognized = recognizeColumn(column.name);
    const reason = objectionTo(column, recognized);
    if (reason !== null) skipped.push({ column: column.name, reason });
    else if (recognized) candidates.push({ ...recognized, column });
  }
  const chosen = { ...chooseNames(candidates), ...chooseAddress(candidates), ...chooseLists(candidates) };
  for (const field of ["service_pid", "linkedin_url"] as const) {
    const [first] = named(candidates, field);
    if (first) chosen[field] = [first];
  }
  const fields = Object.fromEntries(
    ORDER.flatMap((field) => (chosen[field] ? [[field, chosen[field]] as const] : [])),
  );
  return { fields, skipped };
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

/** Columns of a meaning, those with the fewest other words first. */
function named(candidates: readonly Candidate[], meaning: Recognized["meaning"]): readonly string[] {
  return candidates
    .filter((candidate) => candidate.meaning === meaning)
    .toSorted((a, b) => a.qualifiers.length - b.qualifiers.length)
    .map(({ column }) => column.name);
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
  const parts = {
    ...(middle === undefined ? {} : { middle_name: [middle] }),
    ...(suffix === undefined ? {} : { name_suffix: [suffix] }),
  };
  if (first !== undefined && last !== undefined) return { first_name: [first], last_name: [last], ...parts };
  // `vorname` and `name`, `nombre` and `apellidos`.
  if (first !== undefined && any !== undefined) return { first_name: [first], last_name: [any], ...parts };
  if (last !== undefined && any !== undefined) return { first_name: [any], last_name: [last], ...parts };
  const whole = full ?? any;
  if (whole !== undefined) return { full_name: [whole] };
  return {
    ...(first === undefined ? {} : { first_name: [first] }),
    ...(last === undefined ? {} : { last_name: [last] }),
  };
}

/** Fields of one address: of several, the one with the most columns, then the one with the shortest names. */
function chooseAddress(candidates: readonly Candidate[]): Chosen {
  const groups = Map.groupBy(
    candidates.filter(({ meaning }) => ADDRESS.includes(meaning)),
    ({ qualifiers: words }) => words.filter((word) => !/^add?r/u.test(word)).join(" "),
  );
  const size = (group: readonly Candidate[]) => new Set(group.map(({ meaning }) => meaning)).size;
  const [best = []] = [...groups]
    .toSorted(([a, inA], [b, inB]) => size(inB) - size(inA) || a.length - b.length)
    .map(([, group]) => group);
  const chosen: Chosen = {};
  for (const field of [
    "address_line_1",
    "address_line_2",
    "full_address",
    "city",
    "state",
    "zipcode",
  ] as const) {
    const [column] = named(best, field);
    if (column !== undefined) chosen[field] = [column];
  }
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
