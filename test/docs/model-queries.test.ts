import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { docQueries } from "../../scripts/doc-queries.ts";
import { configOf, jobOf, startWorld, threeJobs, type World } from "../jobs/world.ts";

const config = configOf(
  `${threeJobs}
  customer_segment: { type: segment_push, name: Our customers, sql: select service_pid from person_data.identity_link, after: enrich_customers }
  customer_members: { type: segment_members, segments: [{ job: customer_segment }] }
  customer_deaths: { type: death_signals, segments: [{ job: customer_segment }] }
  endpoint_usage: { type: endpoint_usage, bucketing_size: day, timezone: UTC, start_date: 2026-01-01 }`,
  "prices: { currency: USD, resolve: 0.01, validate_emails: 0.002, enrich: 0.10 }",
);

/** A night of 200 customers, of whom number 242 is number 42 again. */
async function startNight() {
  const world = await startWorld({ rows: 200, config, seed: 9 });
  await world.rows(`INSERT INTO crm.customers SELECT 242, first_name, last_name, email, work_email, phone, linkedin, street, city, state,
    zip, updated_at FROM crm.customers WHERE id = 42`);
  const report = await world.run();
  expect(report.jobs.map(({ status }) => status)).toEqual(report.jobs.map(() => "succeeded"));
  const pid = await world.value("SELECT service_pid FROM person_data.resolution WHERE source_key = '42'");
  return { world, report, pid: pid ?? "" };
}

const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString();

/** Changes after the first night: deaths, an address, and times of receipt. */
async function changeData(world: World, pid: string): Promise<void> {
  const death = { service_pid: pid, date_of_death: "2026-10-01", signal_metadata: {} };
  await world.control("/deaths", {
    set: [
      { ...death, obituary_id: "recent", first_observed_at: daysAgo(2) },
      { ...death, obituary_id: "older", first_observed_at: daysAgo(40) },
    ],
  });
  await world.run({ jobs: ["customer_deaths"] });
  await world.rows(`UPDATE person_data.person_email SET email_address = 'ada@example.com'
      WHERE service_pid = '${pid}' AND email_type = 'personal' AND position = 0;
    UPDATE person_data.person SET _record_synced_at = now() - interval '2 days' WHERE service_pid <> '${pid}'`);
}

const anything = expect.stringMatching(/./u);

/** First rows of the answer to each question of the page. */
function answersIn({ report, pid }: Awaited<ReturnType<typeof startNight>>) {
  const enriched = String(jobOf(report, "enrich_customers").records_matched);
  const [enrich, resolve, validate] = ["enrich_customers", "resolve_customers", "validate_customers"].map(
    (job) => ({
      job,
      records_billed: String(jobOf(report, job).cost?.records_billed),
      amount: String(jobOf(report, job).cost?.amount),
      currency: "USD",
    }),
  );
  const rate = (job: string) => {
    const { records_matched: matched, records_sent: sent } = jobOf(report, job);
    return { job, match_rate: (matched / sent).toFixed(3) };
  };
  const enrichCalls = String(jobOf(report, "enrich_customers").requests);
  const both = ["242", "42"].map((key) => ({ source: "customers", source_key: key }));
  const answers: Readonly<Record<number, readonly object[]>> = {
    1: [{ email_address: expect.stringContaining("@"), email_validation_status: "valid" }],
    2: [{ work_company_name: anything, work_title: anything, work_start_on: anything }],
    3: [rate("enrich_customers"), rate("resolve_customers")],
    4: [enrich ?? {}, resolve ?? {}, validate ?? {}],
    5: [{ name: "Our customers", known_members: anything, added: anything, removed: "0" }],
    6: both.map((row) => ({ ...row, date_of_death: "2026-10-01" })),
    // Other users of the sandbox have called on some days, too.
    7: [{ day: new Date().toISOString().slice(0, 10), endpoint: "v2/enrich", ours: enrichCalls }],
    8: [{ column_name: "first_name", rows_known: enriched, percent: "100.0" }],
    9: [{ service_pid: pid }],
    10: [{ job: "resolve_customers", source_key: "42", is_match: "f", service_pid: null }],
    11: both.map((row) => ({ ...row, service_pid: pid })),
    12: both.map((row) => ({ ...row, match_score: anything })),
    13: [{ service_pid: anything, input_rows: "2", source: "customers", source_key: anything }],
    14: [{ work_title: anything, work_start_on: anything, work_start_precision: anything }],
    15: [{ job: "resolve_customers", code: "not_resolvable", message: anything, input_rows: anything }],
  };
  return answers;
}

test("the queries of the page answer their questions after a night on the sandbox, and its views for masking hide direct and sensitive values, and still join", async () => {
  const night = await startNight();
  const { world, pid } = night;
  await checkMaskedViews(world, pid);
  const answers = answersIn(night);
  await changeData(world, pid);
  expect(docQueries().map(({ number }) => String(number))).toEqual(Object.keys(answers));
  for (const { number, sql } of docQueries()) {
    // What the last run changed: number 42 is nobody any more.
    if (number === 10) {
      await world.rows(`UPDATE crm.customers SET first_name = 'No', last_name = 'One', email = 'no@one.example', work_email = NULL,
        phone = NULL, linkedin = NULL, street = NULL WHERE id = 42`);
      await world.run({ jobs: ["resolve_customers"] });
    }
    const expected = answers[number] ?? [];
    const rows = (await world.rows(sql)).filter(({ endpoint = "v2/enrich" }) => endpoint === "v2/enrich");
    expect(rows.slice(0, expected.length), `query ${number}`).toMatchObject(expected);
    if (number === 7) await checkUsage(world, rows[0] ?? {});
  }
});

/** Expects the calls that the service reports of today, those of others included. */
async function checkUsage(world: World, row: Readonly<Record<string, unknown>>): Promise<void> {
  const stored = await world.value(`SELECT total_requests FROM person_data_ops.endpoint_usage_bucket
    WHERE endpoint = 'v2/enrich' AND bucketing_size = 'day' ORDER BY bucket_start DESC LIMIT 1`);
  const notOurs = Number(row["not_ours"]);
  expect([row["reported"], notOurs]).toEqual([stored, Number(stored) - Number(row["ours"])]);
  expect(notOurs).toBeGreaterThanOrEqual(0);
}

async function checkMaskedViews(world: World, pid: string): Promise<void> {
  const page = await readFile(new URL("../../docs/model-your-data.md", import.meta.url), "utf8");
  const [, recipe = ""] = /```sql\n(SELECT format\([^`]+)```/u.exec(page) ?? [];
  await world.rows("CREATE SCHEMA masked");
  for (const row of await world.rows(recipe)) await world.rows(Object.values(row)[0] ?? "");
  const seen = await world.rows(
    `SELECT p.full_name, p.estimated_income_range, p.gender, e.email_address, e.email_type
    FROM masked.person AS p JOIN masked.person_email AS e USING (service_pid)
    WHERE service_pid = encode(sha256(convert_to('SECRET${pid}', 'UTF8')), 'hex') LIMIT 1`,
  );
  expect(seen).toEqual([
    {
      full_name: null,
      estimated_income_range: null,
      gender: "Male",
      email_address: null,
      email_type: "personal",
    },
  ]);
  await world.rows("DROP SCHEMA masked CASCADE");
}
