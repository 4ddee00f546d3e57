import Table from "cli-table3";

/** Column of a table. */
export interface Column {
  readonly name: string;
  readonly isNumber?: boolean;
  /** Left out if all its cells are empty or 0. */
  readonly isSparse?: boolean;
  /** Left out if the terminal is too narrow, lowest number first; never without a number. */
  readonly drop?: number;
}

/** Characters of a cell that are shown. */
const MAX_CELL = 1000;

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

/**
 * Formats a table without its empty sparse columns. On a narrow terminal it leaves out columns; if it still doesn't fit,
 * it formats one block of lines per row.
 */
export function renderTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  widthColumns: number | null,
): string {
  return renderCut(
    columns,
    rows.map((row) => row.map(cut)),
    widthColumns,
  );
}

function cut(cell: string): string {
  return cell.length <= MAX_CELL ? cell : `${cell.slice(0, MAX_CELL).toWellFormed()}…`;
}

function renderCut(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  widthColumns: number | null,
): string {
  const filled = columns.map(
    ({ isSparse }, i) => !isSparse || rows.some((row) => row[i] !== "" && row[i] !== "0"),
  );
  const order = columns
    .flatMap(({ drop }, i) => (drop === undefined || !filled[i] ? [] : [{ drop, i }]))
    .toSorted((a, b) => a.drop - b.drop);
  for (let dropped = 0; dropped <= order.length; dropped++) {
    const without = new Set(order.slice(0, dropped).map(({ i }) => i));
    const isShown = (_: unknown, i: number): boolean => filled[i] === true && !without.has(i);
    const shown = { columns: columns.filter(isShown), rows: rows.map((row) => row.filter(isShown)) };
    const { text, width } = draw(shown.columns, shown.rows);
    if (widthColumns === null || width <= widthColumns) return text;
  }
  return renderBlocks(columns, rows);
}

function draw(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
): { readonly text: string; readonly width: number } {
  const table = new Table({
    head: columns.map((column) => column.name),
    colAligns: columns.map((column) => (column.isNumber ? "right" : "left")),
    chars: STROKES,
    style: { head: [], border: [], compact: true, "padding-left": 0, "padding-right": 0 },
  });
  table.push(...rows.map((row) => [...row]));
  const [head = "", ...body] = table
    .toString()
    .split("\n")
    .map((line) => line.trimEnd());
  const width = Math.max(head.length, ...body.map((line) => line.length));
  return { text: [head, "─".repeat(width), ...body].join("\n"), width };
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
