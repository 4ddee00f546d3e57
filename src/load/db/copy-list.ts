import { copyEncoded } from "./copy.ts";
import type { LoadPlace } from "../answers/load-place.ts";
import { tableText } from "./names.ts";
import type { EncodedGroup, ListGroup } from "../answers/person-groups.ts";
import { countRows, joinRows, type StoredRows } from "../answers/row-store.ts";

/** COPYs the rows of one list of some persons, and those below them, into their tables. */
export async function copyList(
  place: LoadPlace,
  group: ListGroup,
  encoded: readonly EncodedGroup[],
): Promise<void> {
  await copyInto(
    place,
    group,
    encoded.map((g) => g.rows),
  );
  if (!group.subjects) return;
  await copyInto(
    place,
    group.subjects,
    encoded.map((g) => g.subjects),
  );
}

async function copyInto(
  place: LoadPlace,
  { table, columns }: { readonly table: string; readonly columns: readonly string[] },
  stored: readonly StoredRows[],
): Promise<void> {
  const count = countRows(stored);
  if (count === 0) return;
  const target = tableText(place.names, table);
  await copyEncoded(place.session, target, columns, joinRows(stored));
  place.touch(table, count);
}
