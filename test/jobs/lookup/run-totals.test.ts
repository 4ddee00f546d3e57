import { expect, test } from "vitest";
import { configOf, startWorld, unaccountedRows, type World } from "../world.ts";

const enrichOnly = "\n  enrich_customers: { type: enrich, input: customers }";
const validateOnly = "\n  validate_customers: { type: validate_emails, input: customers }";

/** Input counts of the newest run. */
async function coverageOf(world: World, job: string): Promise<Record<string, string | null>> {
  const [row] = await world.rows(`SELECT input_rows, answered, matched, unmatched, rejected, due
    FROM person_data_ops.input_coverage WHERE job = '${job}' ORDER BY _synced_at DESC LIMIT 1`);
  return row ?? {};
}

test("a record whose answer the warehouse refuses counts as rejected, not as matched too", async () => {
  const world = await startWorld({ rows: 60, config: configOf(enrichOnly) });
  await world.warehouse.migrate();
  await world.rows(`CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.source_key = '7' THEN RAISE EXCEPTION 'no' USING ERRCODE = '22003'; END IF; RETURN NEW; END $$`);
  await world.rows(`CREATE TRIGGER refuse BEFORE INSERT ON person_data.enrichment
    FOR EACH ROW EXECUTE FUNCTION public.refuse()`);
  const { jobs } = await world.run();
  expect(jobs.map(unaccountedRows)).toEqual([0]);
  const [states] = await world.rows(`SELECT count(*) FILTER (WHERE outcome = 'matched') AS matched,
    count(*) FILTER (WHERE outcome = 'unmatched') AS unmatched, count(*) FILTER (WHERE outcome = 'rejected') AS rejected
    FROM person_data_state.lookup_row JOIN person_data_state.lookup_answer USING (content)`);
  expect(await coverageOf(world, "enrich_customers")).toMatchObject(states ?? {});
  const [books] = await world.rows("SELECT records_matched, records_rejected FROM person_data_ops.sync_run");
  expect(books).toEqual({
    records_matched: await world.value(
      "SELECT count(*) FROM person_data_state.lookup_answer WHERE outcome = 'matched'",
    ),
    records_rejected: states?.["rejected"],
  });
});

test("a run that waits for confirmation of parameters has rejected nothing and covers nothing", async () => {
  const world = await startWorld({ rows: 60, config: configOf(enrichOnly) });
  await world.run();
  const before = await coverageOf(world, "enrich_customers");
  await world.rows(`INSERT INTO crm.customers (id, first_name) VALUES (900, ' '), (901, NULL)`);
  await world.rows(`INSERT INTO crm.customers SELECT 902, first_name, last_name, email, work_email, phone, linkedin, street,
    city, state, zip, updated_at FROM crm.customers WHERE id = (SELECT source_key::bigint FROM person_data.enrichment
      WHERE is_match LIMIT 1)`);
  world.configure(configOf(enrichOnly.replace(" }", ", include_premium_fields: true }")));
  const { jobs } = await world.run();
  expect(jobs[0]).toMatchObject({
    limited_by: "parameters_changed",
    records_read: 63,
    records_rejected: 0,
    records_rejected_before_sending: 0,
    records_duplicate: 0,
    records_sent: 0,
  });
  expect(jobs.map(unaccountedRows)).toEqual([0]);
  expect(await coverageOf(world, "enrich_customers")).toEqual(before);
});

test("addresses that occur often are due once each, also where a cap leaves them", async () => {
  const world = await startWorld({ rows: 0, config: configOf(validateOnly) });
  await world.rows(`INSERT INTO crm.customers (id, email, work_email)
    SELECT i, 'often' || i % 4 || '@example.com', 'once' || i || '@example.com' FROM generate_series(1, 40) AS i`);
  await world.run({ maxRecords: 10 });
  expect(await coverageOf(world, "validate_customers")).toMatchObject({
    input_rows: "44",
    answered: "10",
    due: "34",
  });
});
