import { Client } from "pg";
import { expect, test } from "vitest";
import { takeMigratedDatabase } from "./migrated-database.ts";

/** Runs statements in a migrated database, and counts people and customers in the next test's one. */
async function leftAfter(statements: string): Promise<{ isSame: boolean; left: unknown }> {
  const first = await takeMigratedDatabase();
  const writer = new Client({ connectionString: first.url });
  writer.on("error", () => {});
  await writer.connect();
  await writer.query(statements);
  await first.release();
  const second = await takeMigratedDatabase();
  const reader = new Client({ connectionString: second.url });
  await reader.connect();
  const { rows } = await reader.query(
    "SELECT (SELECT count(*) FROM person_data.person) AS people, to_regclass('crm.customers') AS customers, to_regclass('person_data.person_email') AS emails",
  );
  await reader.end();
  await second.release();
  return { isSame: first.url === second.url, left: rows[0] };
}

const EMPTY = { people: "0", customers: null, emails: "person_data.person_email" };

test("a migrated database loses rows, schemas, tables and triggers of the test before", async () => {
  expect(
    await leftAfter(`SET person_etl.run_id = 'test'; INSERT INTO person_data.person (service_pid) VALUES ('p1');
      CREATE SCHEMA crm; CREATE TABLE crm.customers (id int); CREATE TABLE person_data_state.work_1 (id int);
      CREATE TRIGGER t BEFORE UPDATE ON person_data.person FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()`),
  ).toEqual({ isSame: true, left: EMPTY });
});

test("a migrated database of which a table or a right has changed is replaced by a new one", async () => {
  expect(await leftAfter("DROP TABLE person_data.person_email CASCADE")).toEqual({
    isSame: false,
    left: EMPTY,
  });
  expect(await leftAfter("GRANT SELECT ON person_data.person TO PUBLIC")).toEqual({
    isSame: false,
    left: EMPTY,
  });
});
