import { Client } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Cell, converterOf, jsonText } from "../../src/schemas/convert.ts";
import {
  type Field,
  date,
  integer,
  json,
  numeric,
  texts,
  timestamp,
  timestamptz,
} from "../../src/schemas/field.ts";
import { createDatabase, type TestDatabase } from "../support/fresh-database.ts";

let database: TestDatabase;
let client: Client;

beforeAll(async () => {
  database = await createDatabase();
  client = new Client({ connectionString: database.url });
  await client.connect();
  await client.query("SET timezone = 'America/New_York'; SET datestyle = 'SQL, DMY'");
});

afterAll(async () => {
  await client.end();
  await database.release();
});

/** SQL that reads a cell as the column's type and writes it independently of the session's settings. */
const readings: Readonly<Record<string, string>> = {
  bigint: "$1::bigint::text",
  numeric: "$1::numeric::text",
  date: "to_char($1::date, 'YYYY-MM-DD')",
  timestamptz: "to_char($1::timestamptz AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')",
  timestamp: "to_char($1::timestamp, 'YYYY-MM-DD HH24:MI:SS.US')",
  jsonb: "$1::jsonb::text",
  "text[]": "to_json($1::text[])::text",
};

/** Value that a real Postgres reads from a cell. */
async function readBack(type: string, field: Field, value: unknown): Promise<Cell | undefined> {
  const cell = converterOf(field)(value);
  if (typeof cell !== "string") throw new Error("refused");
  const { rows } = await client.query<{ read: Cell }>(`SELECT ${readings[type]} AS read`, [cell]);
  return rows[0]?.read;
}

const nested = (levels: number): unknown => JSON.parse(`${"[".repeat(levels)}${"]".repeat(levels)}`);

test.each<[string, Field, unknown, string]>([
  ["bigint", integer("none", "."), JSON.rawJSON("9223372036854775807"), "9223372036854775807"],
  ["bigint", integer("none", "."), "-9223372036854775808", "-9223372036854775808"],
  ["numeric", numeric("none", "."), 1e17, "100000000000000000"],
  [
    "numeric",
    numeric("none", "."),
    JSON.rawJSON("123456789012345678.12345678901234567890"),
    "123456789012345678.12345678901234567890",
  ],
  ["numeric", numeric("none", "."), "1e-20", `0.${"0".repeat(19)}1`],
  ["numeric", numeric("none", "."), "12.50", "12.50"],
  ["date", date("none", "."), "0001-01-01", "0001-01-01"],
  ["date", date("none", "."), "2024-02-29", "2024-02-29"],
  ["date", date("none", "."), "2024-03-04", "2024-03-04"],
  ["timestamptz", timestamptz("none", "."), "2026-03-08T02:30:00.123456Z", "2026-03-08 02:30:00.123456"],
  [
    "timestamptz",
    timestamptz("none", "."),
    "2026-04-05T23:00:00.999999999-05:30",
    "2026-04-06 04:30:00.999999",
  ],
  ["timestamptz", timestamptz("none", "."), "0001-01-01T00:00:00Z", "0001-01-01 00:00:00.000000"],
  ["timestamptz", timestamptz("none", "."), "9999-12-31T23:59:59.999999Z", "9999-12-31 23:59:59.999999"],
  ["timestamp", timestamp("none", "."), "2026-03-08T02:30:00.5", "2026-03-08 02:30:00.500000"],
  ["jsonb", json("none", "."), [JSON.rawJSON("0.12345678901234567890")], "[0.12345678901234567890]"],
  ["jsonb", json("none", "."), [1e308], `[1${"0".repeat(308)}]`],
  ["jsonb", json("none", "."), nested(200), `${"[".repeat(200)}${"]".repeat(200)}`],
  [
    "text[]",
    texts("none", "."),
    ["a", "", "NULL", 'b "c"', "d\\e", "{f,g}", "h\ni"],
    '["a","","NULL","b \\"c\\"","d\\\\e","{f,g}","h\\ni"]',
  ],
  ["text[]", texts("none", "."), [], "[]"],
])("a %s is read as what was sent (%#)", async (type, field, value, expected) => {
  expect(await readBack(type, field, value)).toBe(expected);
});

test("extra fields nested 100,000 levels deep are stored, where their plain JSON is refused", async () => {
  const deep = nested(100_000);
  await expect(client.query("SELECT $1::jsonb", [JSON.stringify(deep)])).rejects.toMatchObject({
    code: "54001",
  });
  const { rows } = await client.query<{ read: string }>("SELECT $1::jsonb::text AS read", [
    jsonText({ deep }),
  ]);
  expect(rows[0]?.read).toContain('"[[[');
});
