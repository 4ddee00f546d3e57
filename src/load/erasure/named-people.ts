import type { Cell } from "../../schemas/convert.ts";
import {
  type EncodedGroup,
  type EncodedPerson,
  withListRows,
  withScalarRow,
  listGroups,
  scalarNames,
} from "../answers/person-groups.ts";
import { createRowStore, decodeRows } from "../answers/row-store.ts";

/** Position of names or addresses in a person: index of the list in `listGroups`, and cell of its rows. */
interface NamingList {
  readonly list: number;
  readonly at: number;
}

/** Scalar with the PID of the spouse. */
const SPOUSE = scalarNames.indexOf("service_spouse_pid");

/** Lists with PIDs of other people. */
const relativeLists = listsOf("person_relative", "relative_service_pid");

/** Lists with the person's addresses. */
const addressLists = listsOf("person_email", "email_address");

function listsOf(table: string, column: string): readonly NamingList[] {
  return listGroups.flatMap((group, list) =>
    group.table === table ? [{ list, at: group.columns.indexOf(column) }] : [],
  );
}

function valuesAt(person: EncodedPerson, lists: readonly NamingList[]): readonly string[] {
  return lists.flatMap(({ list, at }) => {
    const group = person.groups[list + 1];
    return group ? decodeRows(group.rows).flatMap((row) => row[at] ?? []) : [];
  });
}

/** Addresses of a person. */
export function addressesOf(person: EncodedPerson): readonly string[] {
  return valuesAt(person, addressLists);
}

function spouseOf({ groups, partial }: EncodedPerson): string | null {
  if (partial) return partial.scalars[SPOUSE] ?? null;
  const [scalars] = groups;
  // The PID precedes the scalars.
  return scalars ? (decodeRows(scalars.rows)[0]?.[SPOUSE + 1] ?? null) : null;
}

/** PIDs of other people in a person's rows. */
export function namedBy(person: EncodedPerson): readonly string[] {
  const spouse = spouseOf(person);
  return [...valuesAt(person, relativeLists), ...(spouse === null ? [] : [spouse])];
}

/** Removes these PIDs from a person. Its hashes are the same as if the service had omitted them. */
export function withoutNamed(person: EncodedPerson, pids: ReadonlySet<string>): EncodedPerson {
  const isErased = (cell: Cell | undefined) => typeof cell === "string" && pids.has(cell);
  const store = createRowStore(1024);
  const groups: (EncodedGroup | undefined)[] = [...person.groups];
  for (const { list, at } of relativeLists) {
    const group = groups[list + 1];
    if (!group) continue;
    const rows = decodeRows(group.rows);
    const kept = rows.filter((row) => !isErased(row[at]));
    if (kept.length < rows.length) groups[list + 1] = withListRows(group, store(kept));
  }
  if (!isErased(spouseOf(person) ?? undefined)) return { ...person, groups };
  const [scalars] = groups;
  if (scalars) {
    const [row = []] = decodeRows(scalars.rows);
    groups[0] = withScalarRow(scalars, store([row.map((cell, i) => (i === SPOUSE + 1 ? null : cell))]));
  }
  const partial = person.partial && {
    ...person.partial,
    scalars: person.partial.scalars.map((cell, i) => (i === SPOUSE ? null : cell)),
  };
  return { ...person, groups, partial };
}
