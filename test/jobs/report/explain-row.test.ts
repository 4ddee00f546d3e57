import { expect, test } from "vitest";
import { explainRow, type RowExplanation } from "../../../src/jobs/report/explain-row.ts";
import { planJobs } from "../../../src/jobs/report/plan.ts";
import { recordAnswers } from "../lookup/recording-proxy.ts";
import { configOf, erase, startWorld, threeJobs, type World } from "../world.ts";

const rows = "id, first_name, last_name, email, work_email, phone, linkedin, street, city, state, zip";

/** Explains the rows of `customers` with these keys. */
async function explain(world: World, keys: readonly string[]): Promise<readonly RowExplanation[]> {
  const services = await world.services();
  const { customers } = services.config.inputs;
  if (!customers) throw new Error("the configuration has no input customers");
  const explained: RowExplanation[] = [];
  for (const key of keys) {
    explained.push(await explainRow(services, customers, { key: [key], sourceKey: key }));
  }
  return explained;
}

/** A database with rows of every class. */
async function startMixedWorld(): Promise<World> {
  const world = await startWorld({ rows: 13, people: 2000, config: configOf(threeJobs) });
  await world.rows(`INSERT INTO crm.customers (id, first_name, last_name, email) VALUES
    (50, 'Ann', 'Lee', 'ann@example.com'), (51, 'Bob', NULL, NULL), (52, NULL, NULL, NULL), (53, 'Eve', 'Ray', 'eve@example.com')`);
  await world.run();
  await erase(world, { rows: [{ source: "customers", sourceKey: "53" }] });
  await world.rows(`
    UPDATE crm.customers SET first_name = 'Grace' WHERE id IN (2, 3);
    UPDATE person_data_state.lookup_answer SET answered_at = now() - interval '1000 days'
      WHERE content IN (SELECT content FROM person_data_state.lookup_row WHERE source_key IN ('6', '7')
        OR (source_key = '51' AND job LIKE 'enrich%'));
    DELETE FROM person_data_state.lookup_answer WHERE content IN (SELECT content FROM person_data_state.lookup_row
      WHERE (source_key = '8' AND job LIKE 'enrich%') OR source_key = '9');
    DELETE FROM person_data_state.lookup_row WHERE (source_key = '8' AND job LIKE 'enrich%') OR source_key = '9';
    INSERT INTO crm.customers (${rows}) SELECT 101, first_name, last_name, email, work_email, phone, linkedin, street, city,
      state, zip FROM crm.customers WHERE id = 10;
    DELETE FROM crm.customers WHERE id = 12`);
  return world;
}

/** Numbers of rows by class, as a plan counts them. */
function tallyOf(explained: readonly RowExplanation[], name: string) {
  const found = explained.flatMap(({ jobs }) =>
    jobs.filter(({ job }) => job === name).flatMap((job) => job.rows),
  );
  const reasons: Record<string, number> = {};
  const tally = { unchanged: 0, waiting: 0, suppressed: 0 };
  for (const { verdict, reason, state } of found) {
    if ((verdict === "due" || verdict === "duplicate") && reason !== null)
      reasons[reason] = (reasons[reason] ?? 0) + 1;
    if (verdict === "unchanged" || (verdict === "rejected" && state !== null)) tally.unchanged += 1;
    if (verdict === "waiting" || verdict === "suppressed") tally[verdict] += 1;
  }
  return { ...tally, reasons };
}

test("each class of row has its explanation, and those of all rows add up to the plan", async () => {
  const world = await startMixedWorld();
  const keys = (await world.rows("SELECT id FROM crm.customers ORDER BY id")).map(({ id }) => id ?? "");
  const all = await explain(world, [...keys, "12", "4711"]);
  const { jobs } = await planJobs(await world.services(), []);
  for (const name of ["resolve_customers", "enrich_customers"]) {
    const plan = jobs.find(({ job }) => job === name);
    expect([name, tallyOf(all, name)]).toEqual([
      name,
      {
        unchanged: plan?.records_unchanged,
        waiting: plan?.records_waiting,
        suppressed: plan?.records_suppressed,
        reasons: plan?.due_reasons,
      },
    ]);
    expect(Object.keys(plan?.due_reasons ?? {}).length).toBeGreaterThan(1);
  }
  // Explaining changed nothing.
  expect((await planJobs(await world.services(), [])).jobs).toEqual(jobs);

  const chosen = ["1", "2", "51", "52", "8", "9", "101", "53", "12", "4711"];
  const explained = chosen.flatMap((key) => all.find((row) => row.source_key === key) ?? []);
  const said = explained.flatMap(({ source_key: key, jobs }) =>
    jobs
      .filter(({ type }) => type !== "validate_emails")
      .flatMap(({ job, rows: found }) =>
        found.map(({ verdict, reason }) => [key, job.replace("_customers", ""), verdict, reason]),
      ),
  );
  expect(said).toEqual([
    ["1", "resolve", "unchanged", null],
    ["1", "enrich", "unchanged", null],
    ["2", "resolve", "due", "content_changed"],
    ["2", "enrich", "waiting", "resolve_customers"],
    ["51", "resolve", "rejected", "not_resolvable"],
    ["51", "enrich", "due", "expired"],
    ["52", "resolve", "rejected", "no_identifier"],
    ["52", "enrich", "rejected", "no_identifier"],
    ["8", "resolve", "unchanged", null],
    ["8", "enrich", "due", "never_answered"],
    ["9", "resolve", "due", "never_answered"],
    ["9", "enrich", "waiting", "resolve_customers"],
    ["101", "resolve", "duplicate", null],
    ["101", "enrich", "waiting", "resolve_customers"],
    ["53", "resolve", "suppressed", null],
    ["53", "enrich", "suppressed", null],
  ]);
  expect(explained.map((row) => [row.source_key, row.is_in_input, row.is_known, row.is_erased])).toEqual([
    ...["1", "2", "51", "52", "8", "9", "101"].map((key) => [key, true, true, false]),
    ["53", true, true, true],
    ["12", false, true, false],
    ["4711", false, false, false],
  ]);
  expect(JSON.stringify(explained[7])).not.toMatch(/Eve|eve@/);
  expect(explained[6]?.jobs[0]?.rows[0]?.explanation).toMatch(
    /^a row with the same values was already processed: the next run copies its result without a call$/u,
  );
  expect(explained[2]?.rejects).toMatchObject([{ job: "resolve_customers", code: "not_resolvable" }]);
});

test("a row comes with its results, addresses and calls, and with the request that the service receives for it alone", async () => {
  const world = await startWorld({ rows: 13, people: 2000, config: configOf(threeJobs) });
  const answers = await recordAnswers(world);
  await world.run();
  const [row] = await explain(world, ["01"]);
  const pid = await world.value("SELECT service_pid FROM person_data.resolution WHERE source_key = '1'");
  const emails = await world.rows(
    "SELECT email_address FROM person_data.input_email WHERE source_key = '1' ORDER BY position",
  );
  expect(row?.source_key).toBe("1");
  expect(row?.jobs.map(({ result }) => result?.service_pid)).toEqual([pid, undefined, pid]);
  expect(row?.emails.map(({ email_address: address }) => address)).toEqual(
    emails.map((one) => one["email_address"]),
  );
  expect(row?.calls.map(({ endpoint, http_status: status }) => [endpoint, status])).toEqual([
    ["POST /v2/enrich", 200],
    ["POST /v2/validate_emails", 200],
    ["POST /v1/resolve", 200],
  ]);

  const before = answers.length;
  await world.rows("UPDATE crm.customers SET first_name = 'Grace', email = 'grace@example.org' WHERE id = 3");
  const [changed] = await explain(world, ["3"]);
  await world.run({ jobs: ["resolve_customers", "validate_customers"] });
  const received = answers.slice(before).flatMap(({ request }) => (request === "" ? [] : [request]));
  expect(received).toEqual(changed?.jobs.slice(0, 2).map(({ request }) => JSON.stringify(request?.body)));
});

test("a cap and the last run explain why a due row may be left", async () => {
  const capped = configOf(
    "\n  resolve_customers: { type: resolve, input: customers, max_records_per_run: 5 }",
  );
  const world = await startWorld({ rows: 13, people: 2000, config: capped });
  await world.run();
  const left = await world.rows(`SELECT id FROM crm.customers WHERE id::text NOT IN
    (SELECT source_key FROM person_data.resolution) ORDER BY id LIMIT 1`);
  const [row] = await explain(world, [left[0]?.["id"] ?? ""]);
  expect(row?.jobs[0]?.delay).toMatch(
    /^The next run stops at max_records_per_run \(5 records\), so the row may wait for a later run\. The last run stopped at max_records_per_run; \d+ rows remained\.$/,
  );
});

test("a row that `where` leaves out is distinguished from one that isn't there", async () => {
  const world = await startWorld({
    rows: 5,
    config: configOf(threeJobs).replace("key: id", "key: id\n    where: id <> 2"),
  });
  const explained = await explain(world, ["1", "2", "77"]);
  expect(explained.map((row) => [row.is_in_input, row.is_left_out_by_where, row.is_known])).toEqual([
    [true, false, true],
    [false, true, true],
    [false, false, false],
  ]);
  await expect(explain(world, ["seven"])).rejects.toMatchObject({ code: "bad_key" });
});
