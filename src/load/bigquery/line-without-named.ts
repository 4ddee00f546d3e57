import type { Cell } from "../../schemas/convert.ts";
import { relativeLists, SPOUSE } from "../naming-lists.ts";
import { HASH_LENGTH, listGroups, scalarNames } from "../person-groups.ts";
import type { PersonUpdate } from "../warehouse.ts";
import { listColumn, stagePerson, subjectsColumn, UNSPOKEN_HASH } from "./staged-person.ts";

/** The line of an answer with a person, as it is read back. */
type StagedLine = Readonly<Record<string, unknown>> & {
  readonly pid: string;
  readonly answered_at: string;
  readonly mask: string;
  readonly hashes: string;
  readonly scalars: Readonly<Record<string, string>>;
};

/** The line of an answer without what names any of these PIDs; the same hashes as if the service had left it out. */
export function lineWithoutNamed(text: string, pids: ReadonlySet<string>): string {
  // Written by stagePerson and answerLine; only lines with a person name anybody.
  const line = JSON.parse(text) as StagedLine;
  const update = withoutNamed(updateOf(line), pids);
  const others = Object.entries(line).filter(([name]) => !ofPerson.has(name));
  const person = JSON.parse(`{${stagePerson(update, line.answered_at).line.toString()}}`) as object;
  return JSON.stringify({ ...Object.fromEntries(others), ...person });
}

const ofPerson: ReadonlySet<string> = new Set(
  listGroups.flatMap((_, i) => [listColumn(i), subjectsColumn(i)]),
);

function withoutNamed(update: PersonUpdate, pids: ReadonlySet<string>): PersonUpdate {
  const isErased = (cell: Cell | undefined) => typeof cell === "string" && pids.has(cell);
  const lists = update.lists.map((list, i) => {
    const place = relativeLists.find((one) => one.list === i);
    return list && place ? { ...list, rows: list.rows.filter((row) => !isErased(row[place.at])) } : list;
  });
  const scalars = update.scalars.map((cell, i) => (i === SPOUSE && isErased(cell) ? null : cell));
  return { ...update, lists, scalars };
}

/** What a staged line was made of. */
function updateOf(line: StagedLine): PersonUpdate {
  const cells = [...scalarNames, "_extra"].map((name, i) =>
    line.mask[i] === "1" ? (line.scalars[name] ?? null) : undefined,
  );
  const lists = listGroups.map((group, i) => {
    const hash = line.hashes.slice((i + 1) * HASH_LENGTH, (i + 2) * HASH_LENGTH);
    if (hash === UNSPOKEN_HASH) return undefined;
    const constants = group.discriminator === null ? [line.pid] : [line.pid, group.discriminator.value];
    return {
      rows: rowsOf(line[listColumn(i)], constants, group.columns),
      subjects: rowsOf(line[subjectsColumn(i)], [line.pid], group.subjects?.columns ?? []),
    };
  });
  return {
    servicePid: line.pid,
    scalars: cells.slice(0, scalarNames.length),
    extra: cells[scalarNames.length],
    lists,
  };
}

/** Rows of a list as they were staged: the first columns are the same in all of them. */
function rowsOf(staged: unknown, constants: readonly string[], columns: readonly string[]): Cell[][] {
  // `objectOf` has written exactly this; lists without rows are left out.
  const objects = (staged ?? []) as readonly Readonly<Record<string, string>>[];
  const own = columns.slice(constants.length);
  return objects.map((object) => [...constants, ...own.map((name) => object[name] ?? null)]);
}
