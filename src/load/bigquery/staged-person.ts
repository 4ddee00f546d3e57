import type { Cell } from "../../schemas/convert.ts";
import { encodePerson, groupNames, HASH_LENGTH, listGroups, scalarNames } from "../person-groups.ts";
import { createRowStore } from "../row-store.ts";
import { addressLists, type NamingList, relativeLists, SPOUSE } from "../naming-lists.ts";
import type { PersonSays } from "../keep-out.ts";
import type { PersonUpdate, PreparedPerson } from "../warehouse.ts";
import { createTextSlab } from "./text-slab.ts";

/** Stands in the hashes of an answer for a group that it doesn't speak of. */
export const UNSPOKEN_HASH = "~".repeat(HASH_LENGTH);

/** A person as a piece of a line that is loaded: nothing of the parsed answer is kept. */
export interface StagedPerson extends PreparedPerson, PersonSays {
  /** Members of a JSON object. */
  readonly line: Buffer;
  /** Which lists have rows, and which have rows below them; by the order of `listGroups`. */
  readonly filled: readonly boolean[];
  readonly isWhole: boolean;
}

/** Of a list's columns those that a staged row has: the others are the same in all of its rows. */
export function stagedColumns(group: (typeof listGroups)[number]): readonly string[] {
  return group.columns.slice(group.discriminator === null ? 1 : 2);
}

/** `g1`: the column of a staged line that holds the rows of a list. */
export function listColumn(groupIndex: number): string {
  return `list_${listGroups[groupIndex]?.name ?? ""}`;
}

/** The column that holds the rows below those of a list. */
export function subjectsColumn(groupIndex: number): string {
  return `below_${listGroups[groupIndex]?.name ?? ""}`;
}

const names = [...scalarNames, "_extra"].map((name) => JSON.stringify(name));
const rowNames = listGroups.map((group) => group.columns.map((name) => JSON.stringify(name)));
const belowNames = listGroups.map(
  (group) => group.subjects?.columns.map((name) => JSON.stringify(name)) ?? [],
);

/** An object of the cells that aren't null. */
function objectOf(keys: readonly string[], cells: readonly (Cell | undefined)[], from: number): string {
  let text = "";
  for (let i = from; i < cells.length; i++) {
    const cell = cells[i] ?? null;
    if (cell !== null) text += `${text === "" ? "" : ","}${keys[i]}:${JSON.stringify(cell)}`;
  }
  return `{${text}}`;
}

/** Hashes are those of the Postgres warehouse, so that the same people have the same state in both. */
const scratch = createRowStore(256 * 1024);

/** Lines wait here until they are written into a file. */
const put = createTextSlab();

/** Brings a person into the form of a staged line. */
export function stagePerson(update: PersonUpdate, answeredAt: string): StagedPerson {
  const encoded = encodePerson(update, answeredAt, scratch);
  const hashes = groupNames.map((_, i) => encoded.groups[i]?.hash ?? UNSPOKEN_HASH).join("");
  const cells = [...update.scalars, update.extra];
  const mask = cells.map((cell) => (cell === undefined ? "0" : "1")).join("");
  const pieces = [
    `"pid":${JSON.stringify(update.servicePid)},"micros":${encoded.answeredMicros},"mask":"${mask}","hashes":"${hashes}"`,
    `,"is_whole":${encoded.isWhole},"scalars":${objectOf(names, cells, 0)}`,
  ];
  const filled = listGroups.map((group, i) => {
    const list = update.lists[i];
    if (!list || list.rows.length === 0) return false;
    const from = group.discriminator === null ? 1 : 2;
    pieces.push(
      `,"${listColumn(i)}":[${list.rows.map((row) => objectOf(rowNames[i] ?? [], row, from)).join(",")}]`,
    );
    if (list.subjects.length > 0) {
      pieces.push(
        `,"${subjectsColumn(i)}":[${list.subjects.map((row) => objectOf(belowNames[i] ?? [], row, 1)).join(",")}]`,
      );
    }
    return true;
  });
  return {
    pid: update.servicePid,
    addresses: textsAt(update, addressLists),
    named: namedBy(update),
    line: put(pieces),
    filled,
    isWhole: encoded.isWhole,
  };
}

function textsAt({ lists }: PersonUpdate, places: readonly NamingList[]): readonly string[] {
  return places.flatMap(({ list, at }) => lists[list]?.rows.flatMap((row) => row[at] ?? []) ?? []);
}

/** The PIDs of the people whom a person's rows name beside the person. */
function namedBy(update: PersonUpdate): readonly string[] {
  return [...textsAt(update, relativeLists), ...[update.scalars[SPOUSE]].flatMap((pid) => pid ?? [])];
}
