import { Client } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { converterOf, jsonText } from "../../src/schemas/convert.ts";
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
const readings = {
  integer: "$1::bigint::text",
  numeric: "$1::numeric::text",
  date: "to_char($1::date, 'YYYY-MM-DD')",
  timestamptz: "to_char($1::timestamptz AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')",
  timestamp: "to_char($1::timestamp, 'YYYY-MM-DD HH24:MI:SS.US')",
  json: "$1::jsonb::text",
  "text[]": "to_json($1::text[])::text",
};

const nested = (levels: number): unknown => JSON.parse(`${"[".repeat(levels)}${"]".repeat(levels)}`);
const digits = "123456789012345678.12345678901234567890";

test.each<[keyof typeof readings, unknown, string]>([
  ["integer", JSON.rawJSON("9223372036854775807"), "9223372036854775807"],
  ["integer", "-9223372036854775808", "-9223372036854775808"],
  ["numeric", 1e17, "100000000000000000"],
  ["numeric", JSON.rawJSON(digits), digits],
  ["numeric", "1e-20", `0.${"0".repeat(19)}1`],
  ["numeric", "12.50", "12.50"],
  ["date", "0001-01-01", "0001-01-01"],
  ["date", "2024-03-04", "2024-03-04"],
  ["timestamptz", "2026-03-08T02:30:00.123456Z", "2026-03-08 02:30:00.123456"],
  ["timestamptz", "2026-04-05T23:00:00.999999999-05:30", "2026-04-06 04:30:00.999999"],
  ["timestamptz", "0001-01-01T00:00:00Z", "0001-01-01 00:00:00.000000"],
  ["timestamptz", "9999-12-31T23:59:59.999999Z", "9999-12-31 23:59:59.999999"],
  ["timestamp", "2026-03-08T02:30:00.5", "2026-03-08 02:30:00.500000"],
  ["json", [JSON.rawJSON("0.12345678901234567890")], "[0.12345678901234567890]"],
  ["json", [1e308], `[1${"0".repeat(308)}]`],
  ["json", nested(200), `${"[".repeat(200)}${"]".repeat(200)}`],
  [
    "text[]",
    ["a", "", "NULL", 'b "c"', "d\\e", "{f,g}", "h\ni"],
    '["a","","NULL","b \\"c\\"","d\\\\e","{f,g}","h\\ni"]',
  ],
  ["text[]", [], "[]"],
])("a value of %s is read by Postgres as what was sent (%#)", async (type, value, expected) => {
  const cell = converterOf({ type })(value);
  const { rows } = await client.query(`SELECT ${readings[type]} AS read`, [cell]);
  expect(rows).toEqual([{ read: expected }]);
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
