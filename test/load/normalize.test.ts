import { expect, test } from "vitest";
import { flawOf } from "../../src/load/inputs/profile.ts";
import { isSentSql, normalized, trimmedSql } from "../../src/load/inputs/columns.ts";
import { useContext } from "./postgres-context.ts";
import * as fc from "../support/fast-check.ts";

const context = useContext();

const FIELDS = ["first_name", "city", "emails", "phones"];

/** Value that JavaScript sends for another; null for none. */
function sent(field: string, value: string): string | null {
  const result = normalized(field, value);
  return "text" in result ? result.text : null;
}

/** Values that Postgres sends for others. */
async function sentByPostgres(field: string, values: readonly string[]): Promise<readonly (string | null)[]> {
  const trimmed = `SELECT ${trimmedSql(field, "v")} AS t, o FROM unnest($1::text[]) WITH ORDINALITY AS u(v, o) OFFSET 0`;
  const rows = await context.sql(
    `SELECT CASE WHEN ${isSentSql(field, "t")} THEN t END AS sent FROM (${trimmed}) AS x ORDER BY o`,
    [values],
  );
  return rows.map((row) => row["sent"] ?? null);
}

test.each([
  ["first_name", " José \u3000", "José"],
  ["first_name", "Null", "Null"],
  ["last_name", "???", null],
  ["city", "Null", null],
  ["city", "unknown", null],
  ["zipcode", "00000", null],
  ["emails", "Ann.ÄRZTE@Example.com", "ann.Ärzte@example.com"],
  ["emails", "ann.example.com", null],
  ["emails", "@example.com", null],
  ["emails", "noemail@noemail.com", null],
  ["emails", "test@example.com", "test@example.com"],
  ["emails", "na@gmail.com", "na@gmail.com"],
  ["phones", "+1 (212) 555-0142 x7", "+1 (212) 555-0142 x7"],
  ["phones", "000-000-0000", null],
  ["phones", "(999) 999-9999", null],
  ["phones", "+1 123-456-7890", null],
  ["phones", "555-014", null],
])("%s %j is sent as %j", async (field, value, expected) => {
  expect(sent(field, value)).toBe(expected);
  expect(await sentByPostgres(field, [value])).toEqual([expected]);
});

const piece = fc.oneof(
  fc.constantFrom(
    "@",
    ".",
    "-",
    "0",
    "1",
    "9",
    " ",
    "\u00A0",
    "\n",
    "n/a",
    "none",
    "Test",
    "UNKNOWN",
    "com",
    "é",
    "İ",
    "K",
  ),
  fc.string({ unit: "grapheme", maxLength: 4 }),
  fc.nat(99).map(String),
);
const value = fc.oneof(
  fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join("")),
  fc.stringMatching(/^[-+(]?[01]{1,9}[ -]?[0-9]{0,9}$/),
);

test("the check and the selection agree on every value", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...FIELDS),
      fc.array(value, { minLength: 50, maxLength: 100 }),
      async (field, values) => {
        const storable = values.map((text) => text.replaceAll("\0", ""));
        expect(await sentByPostgres(field, storable)).toEqual(storable.map((text) => sent(field, text)));
      },
    ),
    { numRuns: 20 },
  );
});

/** Values on which a pattern takes minutes if it starts again at each character. */
const LONG = [
  "x".repeat(2e5),
  `x${" ".repeat(2e5)}x`,
  `@${" ".repeat(2e5)}`,
  `@${"x ".repeat(1e5)}x`,
  `(${",".repeat(2e5)}`,
  `1${" ".repeat(2e5)}x`,
];

test("long values are classified in linear time", async () => {
  for (const field of FIELDS) {
    const column = { field, column: "c", typeName: "text", isArray: false };
    expect(flawOf(column, LONG, "postgres")).toBe(null);
    expect(await sentByPostgres(field, LONG)).toEqual(LONG.map((text) => sent(field, text)));
  }
}, 20_000);

test.each([
  ["a@example.com b@example.com", true],
  ["Ann; a@example.com | b@", true],
  ["a@b@example.com, Ann", false],
  ["Ann, a@example.com", false],
  ["a@example.com\n,\nb@example.com", true],
])("%j holds several addresses: %j", (text, isFlawed) => {
  const column = { field: "emails", column: "mail", typeName: "text", isArray: false };
  expect(flawOf(column, [text], "postgres")?.fact ?? null).toBe(isFlawed ? "hold several addresses" : null);
});
