import { expect, test } from "vitest";
import { configOf, jobOf, startWorld, type World } from "../world.ts";

const JOBS = "\n  enrich_customers: { type: enrich, input: customers }\n";
const withMissing = (what: string) => configOf(JOBS).replace("key: id", `key: id\n    on_missing: ${what}`);

/** Rows that are missing. */
const missing = (world: World) =>
  world.value("SELECT count(*) FROM person_data_state.lookup_row WHERE missing_since IS NOT NULL");

/** Passes a day between two nights that missed rows. */
const passDay = (world: World) =>
  world.rows("UPDATE person_data_state.lookup_row SET missing_since = missing_since - interval '1 day'");

test("on_missing: erase erases people who left, except those with another row, and never all at once", async () => {
  const world = await startWorld({ rows: 60, config: withMissing("erase") });
  await world.rows(
    "INSERT INTO crm.customers SELECT id + 1000, first_name, last_name, email, work_email, phone, linkedin, street, city, state, zip, updated_at FROM crm.customers WHERE id = 2",
  );
  await world.run();
  const pidOf = (id: number) =>
    world.value(`SELECT service_pid FROM person_data.enrichment WHERE source_key = '${id}'`);
  const [one, two] = [await pidOf(1), await pidOf(2)];
  await world.rows("DELETE FROM crm.customers WHERE id <= 3");
  const states = () =>
    world.value("SELECT count(*) FROM person_data_state.lookup_row WHERE source_key::int <= 3");
  // Three different runs must miss them, over at least a day.
  for (const left of ["3", "3", "3", "0"]) {
    if (left === "0") await passDay(world);
    expect((await world.run()).status).toBe("succeeded");
    expect(await states()).toBe(left);
  }
  expect(await world.value(`SELECT count(*) FROM person_data.person WHERE service_pid = '${one}'`)).toBe("0");
  expect(await world.value(`SELECT count(*) FROM person_data.person WHERE service_pid = '${two}'`)).toBe(
    two === null ? "0" : "1",
  );
  expect(await missing(world)).toBe("0");

  for (const which of ["id > 30", "true"]) {
    await world.rows(`CREATE TABLE IF NOT EXISTS crm.saved AS SELECT * FROM crm.customers`);
    await world.rows(`DELETE FROM crm.customers WHERE ${which}`);
    const before = await world.value("SELECT count(*) FROM person_data_state.lookup_row");
    const job = jobOf(await world.run({ yes: true }), "enrich_customers");
    expect([job.status, job.limited_by, job.error?.code]).toEqual([
      "limited",
      "missing_rows",
      "missing_rows",
    ]);
    expect(await world.value("SELECT count(*) FROM person_data_state.lookup_row")).toBe(before);
  }
  await world.rows("INSERT INTO crm.customers SELECT * FROM crm.saved");
  expect((await world.run()).status).toBe("succeeded");
  expect(await missing(world)).toBe("0");
});

test("a customer who got another key is neither erased nor kept out", async () => {
  const world = await startWorld({ rows: 30, config: withMissing("erase") });
  await world.run();
  const pid = await world.value("SELECT service_pid FROM person_data.enrichment WHERE source_key = '7'");
  await world.rows("UPDATE crm.customers SET id = 900007 WHERE id = 7");
  for (let night = 1; night <= 4; night++) {
    await passDay(world);
    const job = jobOf(await world.run(), "enrich_customers");
    expect([job.status, job.records_suppressed]).toEqual(["succeeded", 0]);
  }
  expect(await missing(world)).toBe("0");
  expect(
    await world.value("SELECT service_pid FROM person_data.enrichment WHERE source_key = '900007'"),
  ).toBe(pid);
  await world.rows("UPDATE crm.customers SET city = 'Moved' WHERE id = 900007");
  expect(jobOf(await world.run(), "enrich_customers")).toMatchObject({
    records_sent: 1,
    records_suppressed: 0,
  });
});

test("rows that are back when the third run looks again stay", async () => {
  const world = await startWorld({ rows: 30, config: withMissing("erase") });
  await world.run();
  await world.rows("CREATE TABLE crm.saved AS SELECT * FROM crm.customers WHERE id <= 2");
  await world.rows("DELETE FROM crm.customers WHERE id <= 2");
  await world.run();
  await world.run();
  await passDay(world);
  await world.rows("INSERT INTO crm.customers SELECT * FROM crm.saved");
  await world.run();
  expect(await world.value("SELECT count(*) FROM person_data_ops.erasure_subject")).toBe("0");
  expect(await missing(world)).toBe("0");
});
