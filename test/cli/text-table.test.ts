import { expect, test } from "vitest";
import { renderTable } from "../../src/cli/output.ts";

const columns = [
  { name: "job" },
  { name: "read", isNumber: true },
  { name: "waiting", isNumber: true, isSparse: true },
  { name: "seconds", isNumber: true, drop: 2 },
  { name: "sent/s", isNumber: true, drop: 1 },
];
const rows = [
  ["resolve", "15,000", "0", "4.6", "3,092"],
  ["enrich", "9", "", "18.2", "811"],
];

test("a table is complete but for empty sparse columns without a limit", () => {
  expect(renderTable(columns, rows, null)).toBe(
    [
      "job        read  seconds  sent/s",
      "────────────────────────────────",
      "resolve  15,000      4.6   3,092",
      "enrich        9     18.2     811",
    ].join("\n"),
  );
});

test("columns are left out in their order until the table fits", () => {
  expect(renderTable(columns, rows, 31)).toBe(
    [
      "job        read  seconds",
      "────────────────────────",
      "resolve  15,000      4.6",
      "enrich        9     18.2",
    ].join("\n"),
  );
  expect(renderTable(columns, rows, 15).split("\n")[0]).toBe("job        read");
});

test("a table that fits nowhere becomes blocks of lines with every column", () => {
  expect(renderTable(columns, rows.slice(0, 1), 14)).toBe(
    ["job: resolve", "  read     15,000", "  waiting  0", "  seconds  4.6", "  sent/s   3,092"].join("\n"),
  );
});

test("a cell is cut at a thousand characters, never inside one", () => {
  const [, , row] = renderTable(
    [{ name: "key" }, { name: "value" }],
    [["a", `${"x".repeat(999)}😀${"x".repeat(100_000)}`]],
    null,
  ).split("\n");
  expect(row).toBe(`a    ${"x".repeat(999)}\uFFFD…`);
});
