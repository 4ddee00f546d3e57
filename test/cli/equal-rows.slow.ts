import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Client } from "pg";
import { expect, test } from "vitest";
import { runJson } from "./support/cli.ts";
import { sized } from "../support/test-size.ts";
import { configText, createCustomers, makeSetting, startSandbox } from "./support/setting.ts";

const PEOPLE = sized(2000, 4000);
const COPIES = 100;
const GUESTS = sized(150_000, 1_000_000);

test("people with a hundred rows each, and very many placeholders, run within the program's heap", async () => {
  const setting = await makeSetting();
  await createCustomers(setting.url, PEOPLE);
  const client = new Client({ connectionString: setting.url });
  await client.connect();
  const columns = "first_name, last_name, email, work_email, phone, city";
  await client.query(`INSERT INTO crm.customers (id, ${columns})
    SELECT c.id + 10000 * i, ${columns} FROM crm.customers AS c, generate_series(2, ${COPIES}) AS i`);
  await client.query(`INSERT INTO crm.customers (id, first_name, last_name, email)
    SELECT 10000000 + i, 'Guest', 'Guest', 'nobody@example.com' FROM generate_series(1, ${GUESTS}) AS i`);
  const baseUrl = await startSandbox(setting.cwd);
  const jobs = "jobs:\n  enrich_customers: { type: enrich, input: customers }\n";
  await writeFile(join(setting.cwd, "config.yaml"), configText({ baseUrl, jobs }));

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
