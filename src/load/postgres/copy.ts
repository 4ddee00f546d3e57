import { from as copyFrom } from "pg-copy-streams";
import type { Cell } from "../../schemas/convert.ts";
import { quoteIdentifier } from "./names.ts";
import type { Session } from "./session.ts";

const SPECIAL = /[\\\n\r\t]/;
const ESCAPES: Readonly<Record<string, string>> = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** One cell in COPY's text format. */
function encodeCell(cell: Cell): string {
  if (cell === null) return "\\N";
  return SPECIAL.test(cell) ? cell.replace(/[\\\n\r\t]/g, (c) => ESCAPES[c] ?? c) : cell;
}

/** Rows in COPY's text format, each ended by a newline; a newline inside a value is escaped. */
export function encodeRows(rows: readonly (readonly Cell[])[]): string {
  let text = "";
  for (const row of rows) {
    for (let i = 0; i < row.length; i++) {
      const cell = row[i] ?? null;
      if (i > 0) text += "\t";
      text += cell === null ? "\\N" : SPECIAL.test(cell) ? encodeCell(cell) : cell;
    }
    text += "\n";
  }
  // Reading a character makes one flat text of the pieces, which would otherwise all stay alive with it.
  text.charCodeAt(text.length - 1);
  return text;
}

/**
 * COPYs rows that are encoded already; `suffix` holds the cells that every row ends with. `target` is quoted.
 * Does nothing for no rows.
 */
export async function copyEncoded(
  session: Session,
  target: string,
  columns: readonly string[],
  texts: readonly string[],
  suffix: readonly Cell[] = [],
): Promise<void> {
  const joined = texts.join("");
  if (joined === "") return;
  const tail = suffix.map((cell) => `\t${encodeCell(cell)}`).join("");
  // Every newline ends a row, because those inside values are escaped.
  const text = tail === "" ? joined : joined.replaceAll("\n", `${tail}\n`);
  const list = columns.map(quoteIdentifier).join(", ");
  const stream = session.client.query(copyFrom(`COPY ${target} (${list}) FROM STDIN`));
  await new Promise<void>((resolve, reject) => {
    stream.on("error", reject);
    stream.on("finish", resolve);
    stream.end(Buffer.from(text, "utf8"));
  });
}

/** COPYs rows; `suffix` holds the cells that every row ends with. `target` is quoted. */
export async function copyRows(
  session: Session,
  target: string,
  columns: readonly string[],
  rows: readonly (readonly Cell[])[],
  suffix: readonly Cell[] = [],
): Promise<void> {
  await copyEncoded(session, target, columns, [encodeRows(rows)], suffix);
}
