import type { Cell } from "../../schemas/convert.ts";
import {
  decodePerson,
  encodePerson,
  type EncodedPerson,
  listGroups,
  scalarNames,
} from "../lookups/person-groups.ts";
import { createRowStore, decodeRows } from "../lookups/row-store.ts";

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
  return lists.flatMap(({ list, at }) => decodeRows(person, list + 1).flatMap((row) => row[at] ?? []));
}

/** Addresses of a person. */
export function addressesOf(person: EncodedPerson): readonly string[] {
  return valuesAt(person, addressLists);
}

function spouseOf(person: EncodedPerson): string | null {
  // The PID precedes the scalars.
  return decodeRows(person, 0)[0]?.[SPOUSE + 1] ?? null;
}

/** PIDs of other people in a person's rows. */
export function namedBy(person: EncodedPerson): readonly string[] {
  const spouse = spouseOf(person);
  return [...valuesAt(person, relativeLists), ...(spouse === null ? [] : [spouse])];
}

/** Removes these PIDs from a person. Its hashes are the same as if the service had omitted them. */
export function withoutNamed(person: EncodedPerson, pids: ReadonlySet<string>): EncodedPerson {
  if (!namedBy(person).some((pid) => pids.has(pid))) return person;
  const isErased = (cell: Cell | undefined) => typeof cell === "string" && pids.has(cell);
  const { scalars, lists, ...rest } = decodePerson(person);
  return encodePerson(
    {
      ...rest,
      scalars: scalars.map((cell, i) => (i === SPOUSE && isErased(cell) ? null : cell)),
      lists: lists.map((list, i) => {
        const at = relativeLists.find((one) => one.list === i)?.at;
        return list && at !== undefined ? { rows: list.rows.filter((row) => !isErased(row[at])) } : list;
      }),
    },
    createRowStore(1024),
  );
}
