import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { docQueries } from "../../scripts/doc-queries.ts";
import type { JobReport } from "../../src/jobs/job.ts";
import { configOf, jobOf, startWorld, threeJobs, type World } from "../jobs/world.ts";

const config = configOf(
  `${threeJobs}
  customer_segment: { type: segment_push, name: Our customers, sql: select service_pid from person_data.identity_link, after: enrich_customers }
  customer_members: { type: segment_members, segments: [{ job: customer_segment }] }
  customer_deaths: { type: death_signals, segments: [{ job: customer_segment }] }
  endpoint_usage: { type: endpoint_usage, bucketing_size: day, timezone: UTC, start_date: 2026-01-01 }`,
  "prices: { currency: USD, resolve: 0.01, validate_emails: 0.002, enrich: 0.10 }",
);

type Row = Readonly<Record<string, string | null>>;

/** Fields of a person, from the sandbox's controls. */
interface SandboxPerson {
  readonly personal_emails: readonly { readonly email_address: string }[];
  readonly professional_emails: readonly { readonly email_address: string }[];
  readonly work_experience: readonly {
    readonly work_company_name: string;
    readonly work_title: string;
    readonly work_status: string;
    readonly work_start_date: string;
  }[];
}

interface Night {
  readonly world: World;
  /** Report of the first night's job. */
  readonly job: (name: string) => JobReport;
  /** PID of customer 42, and the person at the sandbox. */
  readonly pid: string;
  readonly person: SandboxPerson;
  /** Rows of a query of the page. */
  readonly answer: (number: number) => Promise<readonly Row[]>;
}

/** A night of 200 customers, of whom number 242 is number 42 again. */
async function startNight(): Promise<Night> {
  const world = await startWorld({ rows: 200, config, seed: 9 });
  await world.rows(`INSERT INTO crm.customers SELECT 242, first_name, last_name, email, work_email, phone, linkedin, street, city, state,
    zip, updated_at FROM crm.customers WHERE id = 42`);
  const report = await world.run();
  expect(report.jobs.map(({ status }) => status)).toEqual(report.jobs.map(() => "succeeded"));
  const pid = await world.value("SELECT service_pid FROM person_data.resolution WHERE source_key = '42'");
  return {
    world,
    job: (name) => jobOf(report, name),
    pid: pid ?? "",
    // Answer of the sandbox's controls.
    person: (await world.control(`/person/${pid}`)) as SandboxPerson,
    answer: (number) => world.rows(docQueries().find((query) => query.number === number)?.sql ?? ""),
  };
}

/** Rows of the people's tables, written down another way than in the page. */
async function matchesOf({ world }: Night): Promise<ReadonlyMap<string, readonly string[]>> {
  const rows = await world.rows(
    `SELECT service_pid, source_key FROM person_data.resolution WHERE is_match
    UNION SELECT service_pid, source_key FROM person_data.enrichment WHERE is_match`,
  );
  const keys = new Map<string, string[]>();
  for (const { service_pid: pid, source_key: key } of rows) {
    keys.set(pid ?? "", [...(keys.get(pid ?? "") ?? []), key ?? ""].toSorted());
  }
  return keys;
}

const day = () => new Date().toISOString().slice(0, 10);
const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString();
const share = (part: number, whole: number, digits: number) => (part / whole).toFixed(digits);

/** Checks the answer to one question of the page. */
const checks: Readonly<Record<number, (night: Night) => Promise<void>>> = {
  1: async ({ world, person, answer }) => {
    const statuses = new Map(
      (
        await world.rows("SELECT email_address, email_validation_status FROM person_data.email_validation")
      ).map((row) => [row["email_address"], row["email_validation_status"] ?? null]),
    );
    const order = (address: string) => ["valid", null, "invalid"].indexOf(statuses.get(address) ?? null);
    const [best] = [...person.personal_emails, ...person.professional_emails]
      .map(({ email_address: address }) => address)
      .toSorted((a, b) => order(a) - order(b));
    expect(await answer(1)).toEqual([
      { email_address: best, email_validation_status: statuses.get(best ?? "") },
    ]);
  },
  2: async ({ person, answer }) => {
    const job = person.work_experience.find(({ work_status: status }) => status === "current");
    expect(await answer(2)).toEqual(
      job
        ? [
            {
              work_company_name: job.work_company_name,
              work_title: job.work_title,
              work_start_on: `${job.work_start_date}-01-01`.slice(0, 10),
            },
          ]
        : [],
    );
  },
  3: async ({ job, answer }) => {
    const week = expect.stringMatching(/^\d{4}-\d{2}-\d{2}$/u);
    expect(await answer(3)).toEqual(
      ["enrich_customers", "resolve_customers"].map((name) => ({
        week,
        job: name,
        match_rate: share(job(name).records_matched, job(name).records_sent, 3),
      })),
    );
  },
  4: async ({ job, answer }) => {
    const cost = ["enrich_customers", "resolve_customers", "validate_customers"].map((name) => ({
      month: `${day().slice(0, 7)}-01`,
      job: name,
      records_billed: String(job(name).cost?.records_billed),
      amount: job(name).cost?.amount,
      currency: "USD",
    }));
    expect((await answer(4)).map((row) => ({ ...row, amount: Number(row["amount"]) }))).toEqual(cost);
  },
  5: async (night) => {
    const members = String((await matchesOf(night)).size);
    expect(await night.answer(5)).toEqual([
      {
        observed_at: expect.any(String),
        name: "Our customers",
        known_members: members,
        added: members,
        removed: "0",
      },
    ]);
  },
  6: async ({ world, pid, answer }) => {
    const signal = (id: string, days: number) => ({
      service_pid: pid,
      obituary_id: id,
      date_of_death: "2026-10-01",
      first_observed_at: daysAgo(days),
      signal_metadata: {},
    });
    await world.control("/deaths", { set: [signal("recent", 2), signal("older", 40)] });
    await world.run({ jobs: ["customer_deaths"] });
    const ours = (await answer(6)).filter(({ source_key: key }) => key === "42" || key === "242");
    expect(ours.map(({ source_key: key, date_of_death: date }) => `${key} ${date}`).toSorted()).toEqual([
      "242 2026-10-01",
      "42 2026-10-01",
    ]);
  },
  7: async ({ world, job, answer }) => {
    const row = (await answer(7)).find(({ endpoint }) => endpoint === "v2/enrich");
    const ours = job("enrich_customers").requests ?? 0;
    // On some days, other users of the sandbox have called, too.
    const reported = Number(
      await world.value(`SELECT total_requests FROM person_data_ops.endpoint_usage_bucket
        WHERE endpoint = 'v2/enrich' AND bucketing_size = 'day' AND bucket_start = '${day()}T00:00:00Z'`),
    );
    expect(reported).toBeGreaterThanOrEqual(ours);
    expect(row).toEqual({
      day: day(),
      endpoint: "v2/enrich",
      ours: String(ours),
      reported: String(reported),
      not_ours: String(reported - ours),
    });
  },
  8: async ({ world, answer }) => {
    const rows = new Map((await answer(8)).map((row) => [row["column_name"], row]));
    for (const column of ["full_name", "linkedin_title", "estimated_income_min", "_extra"]) {
      const known = await world.value(`SELECT count(*) FROM person_data.person WHERE ${column} IS NOT NULL`);
      const all = await world.value("SELECT count(*) FROM person_data.person");
      expect(rows.get(column)).toEqual(
        column === "_extra"
          ? undefined
          : {
              column_name: column,
              rows_known: known,
              percent: share(Number(known) * 100, Number(all), 1),
            },
      );
    }
  },
  9: async ({ world, pid, answer }) => {
    await world.rows(
      `UPDATE person_data.person SET _record_synced_at = now() - interval '2 days' WHERE service_pid <> '${pid}'`,
    );
    expect(await answer(9)).toEqual([{ service_pid: pid }]);
  },
  10: async ({ world, answer }) => {
    await world.rows(
      "UPDATE crm.customers SET first_name = 'No', last_name = 'One', email = 'no@one.example', work_email = NULL, phone = NULL, linkedin = NULL, street = NULL WHERE id = 42",
    );
    await world.run({ jobs: ["resolve_customers"] });
    expect(await answer(10)).toEqual([
      { job: "resolve_customers", source_key: "42", is_match: "f", service_pid: null },
    ]);
  },
  11: async ({ world, pid, answer }) => {
    await world.rows(
      `UPDATE person_data.person_email SET email_address = 'ada@example.com' WHERE service_pid = '${pid}' AND email_type = 'personal' AND position = 0`,
    );
    expect(new Set((await answer(11)).map((row) => `${row["service_pid"]} ${row["source_key"]}`))).toEqual(
      new Set([`${pid} 42`, `${pid} 242`]),
    );
  },
  12: async (night) => {
    const keys = (await matchesOf(night)).get(night.pid);
    expect(keys).toEqual(["242", "42"]);
    expect((await night.answer(12)).map((row) => row["source_key"] ?? "").toSorted()).toEqual(keys);
  },
  13: async (night) => {
    const several = [...(await matchesOf(night))]
      .filter(([, keys]) => keys.length > 1)
      .toSorted(([a], [b]) => (a < b ? -1 : 1));
    expect(several.length).toBeGreaterThan(0);
    expect(await night.answer(13)).toEqual(
      several.flatMap(([pid, keys]) =>
        keys.map((key) => ({
          service_pid: pid,
          input_rows: String(keys.length),
          source: "customers",
          source_key: key,
        })),
      ),
    );
  },
  14: async ({ person, answer }) => {
    const precision = ["", "", "", "", "year", "", "", "month", "", "", "day"];
    expect(
      (await answer(14)).map(({ work_title: title, work_start_on: on, work_start_precision: exact }) => [
        title,
        on,
        exact,
      ]),
    ).toEqual(
      person.work_experience
        .map(({ work_title: title, work_start_date: start }) => [
          title,
          `${start}-01-01`.slice(0, 10),
          precision[start.length],
        ])
        .toReversed(),
    );
  },
  15: async ({ job, answer }) => {
    const rejected = new Map<string, number>();
    for (const { job: name, input_rows: rows } of await answer(15)) {
      rejected.set(name ?? "", (rejected.get(name ?? "") ?? 0) + Number(rows));
    }
    expect(rejected).toEqual(
      new Map(
        ["resolve_customers", "enrich_customers"].map((name) => [
          name,
          job(name).records_rejected_before_sending,
        ]),
      ),
    );
  },
};

test("the queries of the page answer their questions after a night on the sandbox, and its views for masking hide direct and sensitive values, and still join", async () => {
  expect(docQueries().map(({ number }) => number)).toEqual(Array.from({ length: 15 }, (_, i) => i + 1));
  const night = await startNight();
  await checkMaskedViews(night);
  // Queries about the first night, then those after which it is another one.
  for (const number of [1, 2, 3, 4, 5, 7, 8, 12, 13, 14, 15, 6, 11, 9, 10]) await checks[number]?.(night);
});

async function checkMaskedViews({ world, pid }: Night): Promise<void> {
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
