import type { LoadContext } from "../lookups/answer.ts";
import type { EncodedPerson, ListGroup } from "../lookups/person-groups.ts";
import { joinRows } from "../lookups/row-store.ts";
import { copyEncoded } from "./copy.ts";
import { tableText } from "./names.ts";

/** COPYs the rows of one nested list of several persons into its table. @param groupIndex in `groupNames` */
export async function copyList(
  { session, names, touch }: LoadContext,
  { table, columns }: ListGroup,
  groupIndex: number,
  persons: readonly EncodedPerson[],
): Promise<void> {
  const rows = joinRows(persons, groupIndex);
  const copied = await copyEncoded(session, tableText(names, table), columns, rows);
  if (copied > 0) touch(table, copied);
}
