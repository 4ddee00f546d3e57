import Table from "cli-table3";

/** Column of a table. */
export interface Column {
  readonly name: string;
  readonly isNumber?: boolean;
}

/** Draws only a line below the header. */
const STROKES = {
  top: "",
  "top-mid": "",
  "top-left": "",
  "top-right": "",
  bottom: "",
  "bottom-mid": "",
  "bottom-left": "",
  "bottom-right": "",
  left: "",
  "left-mid": "",
  mid: "",
  "mid-mid": "",
  right: "",
  "right-mid": "",
  middle: "  ",
};

/** Formats a table, or one block of lines per row if the table is wider than the terminal. */
export function renderTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  widthColumns: number | null,
): string {
  const table = new Table({
    head: columns.map((column) => column.name),
    colAligns: columns.map((column) => (column.isNumber ? "right" : "left")),
    chars: STROKES,
    style: { head: [], border: [], compact: true, "padding-left": 0, "padding-right": 0 },
  });
  table.push(...rows.map((row) => [...row]));
  const lines = table
    .toString()
    .split("\n")
    .map((line) => line.trimEnd());
  const width = Math.max(...lines.map((line) => line.length));
  if (widthColumns !== null && width > widthColumns) return renderBlocks(columns, rows);
  const [head = "", ...body] = lines;
  return [head, "─".repeat(width), ...body].join("\n");
}

function renderBlocks(columns: readonly Column[], rows: readonly (readonly string[])[]): string {
  const [first, ...rest] = columns;
  const nameWidth = Math.max(0, ...rest.map((column) => column.name.length));
  return rows
    .map(([title = "", ...cells]) =>
      [
        `${first?.name ?? ""}: ${title}`,
        ...rest.map((column, i) => `  ${column.name.padEnd(nameWidth)}  ${cells[i] ?? ""}`),
      ].join("\n"),
    )
    .join("\n");
}
