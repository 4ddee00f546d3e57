import type { Client } from "pg";
import { expect, test } from "vitest";
import { personDerivations } from "../../src/schemas/person.ts";
import { commitPersons, wholePerson } from "./suite/person-updates.ts";
import { useContext } from "./postgres-context.ts";

const context = useContext();

const tables = [...personDerivations.keys()];
const derivedOf = (table: string) =>
  (personDerivations.get(table) ?? []).flatMap(({ columns }) => Object.keys(columns));

/** Rows of the tables with derived columns. */
async function readAll(client: Client): Promise<Readonly<Record<string, readonly unknown[]>>> {
  const rows: Record<string, readonly unknown[]> = {};
  for (const table of tables) {
    const names = ["service_pid", ...(table === "person" ? [] : ["position"]), ...derivedOf(table)];
    rows[table] = (
      await client.query(`SELECT ${names.join(", ")} FROM person_data.${table} ORDER BY 1, 2`)
    ).rows;
  }
  return rows;
}

/** Takes the database back to the state before the migration. */
async function removeDerived(client: Client): Promise<void> {
  for (const table of tables) {
    const drops = derivedOf(table).map((name) => `DROP COLUMN ${name} CASCADE`);
    await client.query(`ALTER TABLE person_data.${table} ${drops.join(", ")}`);
  }
  await client.query("DELETE FROM person_data_state.schema_migration WHERE name > '0002'");
}

const texts = [
  "2019",
  "2019-04",
  "2019-04-09",
  "2024-02-29",
  "2023-02-29",
  "2019-13",
  "0000",
  " 2019",
  "Present",
  "",
];
const ranges = [
  "<$25,000",
  "$25,000-$49,999",
  "$1,000,000+",
  "$500K to $1M",
  "-$5,000--$1",
  "Unknown",
  "",
  null,
];

test("rows of an earlier version get the derived columns that a load computes, and count as changed", async () => {
  const { client, warehouse } = context;
  const people = ranges.map((range, i) =>
    wholePerson(`p-${i}`, {
      estimated_income_range: range,
      estimated_wealth_range: ranges.at(-i) ?? null,
      work_experience: texts.map((text) => ({ work_start_date: text, work_end_date: null })),
      education_experience: i === 0 ? texts.map((text) => ({ education_end_date: text })) : [],
      address_history: texts.map((text, at) => ({ purchase_date: text, last_seen_date: texts.at(-at) })),
    }),
  );
  await commitPersons(context, [...people, wholePerson("p-none")]);
  const loaded = await readAll(client);
  expect(loaded["person"]?.[1]).toMatchObject({
    estimated_income_min: "25000",
    estimated_income_max: "49999",
  });
  expect(loaded["person_work_experience"]?.[1]).toMatchObject({
    work_start_on: "2019-04-01",
    work_start_precision: "month",
    work_end_on: null,
  });
  const syncedAt = "SELECT service_pid, _record_synced_at AS at FROM person_data.person ORDER BY 1";
  const before = (await client.query(syncedAt)).rows;

  await removeDerived(client);
  expect(await warehouse.migrate()).toContain("0002-derived-columns");
  expect(await readAll(client)).toEqual(loaded);
  const after = (await client.query(syncedAt)).rows;
  expect(after.filter((row, i) => row.at === before[i]?.at)).toMatchObject([{ service_pid: "p-none" }]);
  const unchanged = `SELECT count(*) AS rows, count(*) FILTER (WHERE _synced_at < (SELECT max(ran_at) FROM person_data_state.schema_migration)
    AND work_start_on IS NOT NULL) AS stale FROM person_data.person_work_experience`;
  expect((await client.query(unchanged)).rows).toEqual([{ rows: "80", stale: "0" }]);
});
