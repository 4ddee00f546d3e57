import type { LoadContext } from "../answers/load-context.ts";
import type { EncodedGroup, ListGroup } from "../answers/person-groups.ts";
import { countRows, joinRows } from "../answers/row-store.ts";
import { copyEncoded } from "./copy.ts";
import { tableText } from "./names.ts";

/** COPYs rows of one nested list of several persons into its table. */
export async function copyList(
  context: LoadContext,
  { table, columns }: ListGroup,
  encoded: readonly EncodedGroup[],
): Promise<void> {
  const stored = encoded.map(({ rows }) => rows);
  const count = countRows(stored);
  if (count === 0) return;
  await copyEncoded(context.session, tableText(context.names, table), columns, joinRows(stored));
  context.touch(table, count);
}
