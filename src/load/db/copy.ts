import { from as copyFrom } from "pg-copy-streams";
import { crashPoint } from "../../crash-point.ts";
import type { Cell } from "../../schemas/convert.ts";
import type { LoadContext } from "../lookups/answer.ts";
import type { EncodedPerson, ListGroup } from "../lookups/person-groups.ts";
import { encodeRows, joinRows } from "../lookups/row-store.ts";
import { quoteIdentifier, tableText } from "./names.ts";
import type { Session } from "./session.ts";

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

/** COPYs encoded rows and returns their number; does nothing without rows. `target` is quoted. */
export async function copyEncoded(
  session: Session,
  target: string,
  columns: readonly string[],
  encoded: Buffer,
): Promise<number> {
  if (encoded.length === 0) return 0;
  const list = columns.map(quoteIdentifier).join(", ");
  crashPoint("before_copy");
  const stream = session.client.query(copyFrom(`COPY ${target} (${list}) FROM STDIN`));
  try {
    await new Promise<void>((resolve, reject) => {
      stream.on("error", reject);
      stream.on("finish", resolve);
      stream.end(encoded);
    });
  } catch (error) {
    // The stack of the driver's error begins at its socket; the callers are here.
    if (error instanceof Error) Error.captureStackTrace(error);
    throw error;
  }
  crashPoint("after_copy");
  return stream.rowCount;
}

/** COPYs rows. `target` is quoted. */
export async function copyRows(
  session: Session,
  target: string,
  columns: readonly string[],
  rows: readonly (readonly Cell[])[],
): Promise<void> {
  await copyEncoded(session, target, columns, encodeRows(rows));
}
