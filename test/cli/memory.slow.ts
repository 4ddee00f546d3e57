import { Client } from "pg";
import { expect, test } from "vitest";
import type { ColumnType } from "../../src/schemas/field.ts";
import { tables } from "../../src/schemas/registry.ts";
import type { Column, Table } from "../../src/schemas/table.ts";
import { sized } from "../support/test-size.ts";
import { runJson } from "./support/cli.ts";
import { runMeasured } from "./support/measured-cli.ts";
import { makeServed, makeSetting } from "./support/setting.ts";

const PEOPLE = sized(2000, 4000);
const COPIES = 100;
const GUESTS = sized(150_000, 1_000_000);

test("people with a hundred rows each, and very many placeholders, run within the program's heap", async () => {
  const jobs = "jobs:\n  enrich_customers: { type: enrich, input: customers }\n";
  const setting = await makeServed({ rows: PEOPLE, jobs });
  const client = new Client({ connectionString: setting.url });
  await client.connect();
  const columns = "first_name, last_name, email, work_email, phone, city";
  await client.query(`INSERT INTO crm.customers (id, ${columns})
    SELECT c.id + 10000 * i, ${columns} FROM crm.customers AS c, generate_series(2, ${COPIES}) AS i`);
  await client.query(`INSERT INTO crm.customers (id, first_name, last_name, email)
    SELECT 10000000 + i, 'Guest', 'Guest', 'nobody@example.com' FROM generate_series(1, ${GUESTS}) AS i`);

  const first = await runJson(["run", "--yes"], setting);
  expect(first.code).toBe(0);
  expect(first.document).toMatchObject({
    status: "succeeded",
    jobs: [{ records_read: PEOPLE * COPIES + GUESTS, records_remaining: 0 }],
  });
  const { rows } = await client.query<{ states: string; guests: string }>(`
    SELECT count(*) AS states, count(*) FILTER (WHERE source_key::bigint > 10000000) AS guests
    FROM person_data_state.lookup_row JOIN person_data_state.lookup_answer USING (content) WHERE outcome <> 'rejected'`);
  expect(Number(rows[0]?.guests)).toBe(GUESTS);
  expect(Number(rows[0]?.states)).toBeGreaterThan(GUESTS + PEOPLE * COPIES * 0.9);
  const second = await runJson(["run"], setting);
  expect(second.document).toMatchObject({ jobs: [{ records_sent: 0 }] });
  await client.end();
}, 300_000);

/** Resident memory that no publication exceeds. */
const MOST_MEBIBYTES = 256;
const ROWS = sized(15_000, 200_000);
/** Several batches. */
const CHANGED_PEOPLE = 8_000;

/** SQL of a value in row `i`. */
const values: Readonly<Record<ColumnType, string>> = {
  text: "left(md5(i::text), 8 + i % 24)",
  integer: "i % 90",
  position: "i % 2",
  numeric: "i::numeric / 7",
  boolean: "i % 2 = 0",
  date: "DATE '1950-01-01' + i % 20000",
  timestamptz: "TIMESTAMPTZ '2026-01-01 00:00:00.123456+00' + i * interval '1 second'",
  timestamp: "TIMESTAMP '2026-01-01 00:00:00.123456' + i * interval '1 second'",
  json: "jsonb_build_object('a', md5(i::text), 'b', i)",
  uuid: "md5(i::text)::uuid",
  "text[]": "ARRAY[md5(i::text), 'b']",
  bytes: "sha256(i::text::bytea)",
};

/** SQL of a column in row `i`; a person has two rows in each list. */
function valueOf({ key, parent }: Table, { name, type, values: listed = [] }: Column): string {
  const [first] = listed;
  if (first !== undefined) return `'${first}'`;
  const number = name === "service_pid" && parent !== null ? "i / 2" : "i";
  return key.includes(name) && type === "text" ? `'${name[0]}-' || ${number}` : values[type];
}

function fillStatement(table: Table): string {
  const names = table.columns.map(({ name }) => `"${name}"`).join(", ");
  const row = table.columns.map((column) => valueOf(table, column)).join(", ");
  return `INSERT INTO person_data."${table.name}" (${names}) SELECT ${row} FROM generate_series(1, ${ROWS}) AS i ON CONFLICT DO NOTHING`;
}

test("a publication takes at most 256 MiB: the first one, of changes, of an erasure, and with --verify", async () => {
  const setting = await makeSetting({ rows: 10 });
  await setting.configure({}, "publish:\n  local: { type: duckdb, path: people.duckdb }\n");
  await runJson(["migrate"], setting);
  for (const table of tables.filter(({ schema }) => schema === "data")) {
    await setting.query(`SET session_replication_role = replica; ${fillStatement(table)}`);
  }
  const peaks: Record<string, number> = {};
  const measure = async (title: string, ...args: readonly string[]) => {
    const { code, stdout, stderr, peakMebibytes } = await runMeasured(args, setting);
    if (code !== 0) throw new Error(`${title}: ${stdout}${stderr}`);
    peaks[title] = Math.round(peakMebibytes);
  };
  await measure("first", "publish");
  await setting.query(
    `UPDATE person_data.person SET full_name = 'x', _synced_at = now() WHERE hashtext(service_pid) % ${ROWS / CHANGED_PEOPLE} = 0`,
  );
  await measure("changes", "publish");
  await measure("erasure", "erase", "--pid", "s-1", "--pid", "s-2", "--yes");
  await measure("verification", "publish", "--verify");
  const tooLarge = Object.entries(peaks).filter(([, peak]) => peak > MOST_MEBIBYTES || peak < 50);
  expect({ tooLarge, peaks }).toEqual({ tooLarge: [], peaks });
});
