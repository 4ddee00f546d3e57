import { beforeAll, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { readStatus } from "../../src/jobs/report/status.ts";
import { createLivePage } from "../../src/operate/page/render-page.ts";
import { servePages } from "../../src/operate/pages.ts";
import { configOf, startWorld, threeJobs, type World } from "../jobs/world.ts";
import { MIDNIGHT_TIMEOUT_MS, passMidnight } from "../support/held-day.ts";
import { ninetyDays } from "../support/ninety-days.ts";
import { readPageContent } from "../support/page-content.ts";

beforeAll(passMidnight, MIDNIGHT_TIMEOUT_MS);

const night = `${threeJobs}
  customer_segment: { type: segment_push, name: Our customers, sql: select service_pid from person_data.identity_link, after: enrich_customers }
  customer_members: { type: segment_members, segments: [{ job: customer_segment }] }
  customer_deaths: { type: death_signals, segments: [{ job: customer_segment }] }
  search_usage: { type: search_usage }
  endpoint_usage: { type: endpoint_usage, bucketing_size: day, start_date: 2026-01-01 }`;
const settings = `prices: { currency: EUR, resolve: 0.01, validate_emails: 0.002, enrich: 0.10 }
budgets: { enrich: { per_month: 100000 } }`;

/** Number with separators. */
const grouped = (value: string | null | undefined) => Number(value).toLocaleString("en-US");

/** Serves the page of a world. */
async function openPage(world: World): Promise<string> {
  const services = { ...(await world.services()), clock: systemClock };
  const page = createLivePage(
    () => services,
    () => readStatus(services),
  );
  const pages = await servePages({ page, probes: null, token: null }, { bind: "127.0.0.1", port: 0 });
  onTestFinished(() => pages.close());
  return pages.url;
}

/** Text of a page. */
async function fetchText(url: string): Promise<string> {
  const response = await fetch(url);
  expect(response.status).toBe(200);
  return response.text();
}

test("a warehouse without runs has every section, each with what is missing", async () => {
  const world = await startWorld({ rows: 1, config: configOf(night) });
  const { headings, notes, tables, charts, fields } = readPageContent(await fetchText(await openPage(world)));
  expect(headings).toEqual([
    "Running now",
    "Jobs",
    "Last runs",
    "Cost and budgets",
    "Usage and match rates",
    "Coverage",
    "Segments and deaths",
    "Rejects",
    "Destinations",
    "Schema drift",
  ]);
  expect(notes).toEqual({
    now: ["Nothing is running."],
    jobs: [],
    runs: ["No job has run yet."],
    cost: [
      "Nothing was billed in 90 days.",
      "No budget is configured: runs send everything that is due.",
      "No price has included_per_month, and no call was refused because the plan was used up.",
      "No job has read a quota yet (search_usage does).",
    ],
    usage: ["No usage in 90 days."],
    coverage: ["No job has read an input yet.", "No people are stored yet."],
    segments: [
      "No job has read the members of a segment in 90 days.",
      "No deaths reported in the last 26 weeks.",
    ],
    rejects: ["No record is rejected."],
    destinations: ["No destination is configured (publish)."],
    drift: ["No unexpected fields in responses."],
  });
  expect(Object.keys(tables)).toEqual(["Jobs"]);
  expect(tables["Jobs"]?.map((row) => [row["job"], row["state"], row["next start"]])).toEqual(
    ["resolve_customers", "validate_customers", "enrich_customers", "customer_segment", "customer_members"]
      .concat(["customer_deaths", "search_usage", "endpoint_usage"])
      .map((job) => [job, "! no success yet", "manual"]),
  );
  expect([charts, fields]).toEqual([{}, []]);
});

test("after ninety nights the page has the figures of the tables, and nobody's data", {
  timeout: 120_000,
}, async () => {
  const world = await startWorld({ rows: 300, config: configOf(night, settings) });
  const report = await world.run();
  expect(report.jobs.map(({ status }) => status)).toEqual(Array(8).fill("succeeded"));
  // Leaves both schemas in the search path of this session.
  await world.rows(ninetyDays);
  await world.rows(
    "INSERT INTO person_data_state.destination (name, confirmed, rows_published, last_published_at) VALUES ('copy', 7, 1234, now())",
  );
  await world.rows(`INSERT INTO person_data.person_history
    (service_pid, field_group, valid_from, valid_to, content, _synced_at, _run_id)
    SELECT service_pid, unnest('{phones,work_experience}'::text[]), now() - interval '1 day', now(), '[]', now(), '${report.run_id}'
    FROM (SELECT service_pid FROM person_data.person LIMIT 3) AS p`);
  const html = await fetchText(await openPage(world));
  const { tables, charts, fields } = readPageContent(html);
  /** Rows of a query as text, for comparison. */
  const query = async (sql: string) => (await world.rows(sql)).map((row) => Object.values(row).join(" "));

  // Last runs: the newest first, with the counters of the table.
  const captions = Object.keys(tables).filter((caption) => caption.startsWith("Jobs of run"));
  expect(captions).toHaveLength(5);
  expect(captions[0]).toBe(`Jobs of run ${report.run_id}`);
  const enriched = report.jobs.find(({ job }) => job === "enrich_customers");
  expect(tables[captions[0] ?? ""]?.find(({ job }) => job === "enrich_customers")).toMatchObject({
    status: "✓ succeeded",
    read: "300",
    sent: String(enriched?.records_sent),
    matched: String(enriched?.records_matched),
    rejected: String(enriched?.records_rejected),
  });

  expect(html.match(/[\d,]+ people changed:[^<]*/gu)).toEqual(["3 people changed: 3 jobs, 3 phones."]);

  // Money: every day and job with its cost, and the sums.
  const costs = await world.rows(
    `SELECT day, job, sum(amount)::numeric(9, 2) AS amount FROM person_data_ops.cost_daily
    WHERE day > now()::date - 90 GROUP BY 1, 2 HAVING sum(amount) >= 0.01 ORDER BY 1, 2`,
  );
  const shown = (charts["Cost per day (EUR)"] ?? []).filter((tip) => !tip.endsWith("€0.00"));
  expect(shown.toSorted()).toEqual(costs.map(({ day, job, amount }) => `${day}, ${job}: €${amount}`));
  expect(costs.length).toBeGreaterThan(200);
  const sums = await world.rows(
    `SELECT sum(records_billed) FILTER (WHERE day = now()::date) AS today, sum(records_billed) AS month,
      to_char(sum(amount), 'FM999,999.00') AS amount
    FROM person_data_ops.cost_daily WHERE day >= date_trunc('month', now())`,
  );
  expect(tables["Billed by period (UTC)"]?.map((row) => row["records billed"]).slice(0, 2)).toEqual([
    grouped(sums[0]?.["today"]),
    grouped(sums[0]?.["month"]),
  ]);
  expect(tables["Billed by period (UTC)"]?.[1]?.["cost"]).toBe(`€${sums[0]?.["amount"]}`);
  const used = await world.value(
    "SELECT sum(records_reserved) FROM person_data_ops.api_call WHERE budget = 'enrich' AND reserved_at >= date_trunc('month', now())",
  );
  expect(tables["Budgets"]).toMatchObject([
    {
      budget: "enrich per month",
      used: grouped(used),
      limit: "100,000",
      left: expect.stringContaining(`${grouped(String(100_000 - Number(used)))} (€`),
    },
  ]);
  expect(await query("SELECT current_day_remaining, daily_record_limit FROM person_search_quota")).toEqual([
    `${tables["Quota of person search"]?.[0]?.["left"]} ${tables["Quota of person search"]?.[0]?.["limit"]}`.replaceAll(
      ",",
      "",
    ),
  ]);

  // Usage: match rates of the ledger, usage of the service.
  const rates = await query(
    `SELECT to_char(reserved_at, 'YYYY-MM-DD') || ', ' || job || ': ' || to_char(100.0 * sum(records_matched) / sum(records_sent), 'FM990.0') || ' %'
    FROM api_call WHERE budget IS NOT NULL AND reserved_at > now()::date - 89 GROUP BY to_char(reserved_at, 'YYYY-MM-DD'), job
    HAVING sum(records_sent) > 0 ORDER BY 1`,
  );
  const isClose = (tip: string, at: number) => {
    const [name, rate] = [tip.split(": ")[0], Number.parseFloat(tip.split(": ")[1] ?? "")];
    return (
      rates[at]?.startsWith(`${name}:`) &&
      Math.abs(rate - Number.parseFloat(rates[at].split(": ")[1] ?? "")) <= 0.11
    );
  };
  const tips = (charts["Match rate per day, from the ledger"] ?? []).toSorted();
  expect(tips).toHaveLength(rates.length);
  expect(tips.filter((tip, at) => !isClose(tip, at))).toEqual([]);
  expect(charts["Records delivered by person search per day"]).toEqual(
    await query(
      `SELECT period_start || ': ' || to_char(records_delivered, 'FM999,999') FROM person_search_usage_daily
      WHERE period_start > now()::date - 90 AND records_delivered > 0 ORDER BY period_start`,
    ),
  );

  // Coverage: inputs of the last run, fields as counted.
  expect(tables["Rows of inputs"]?.map((row) => [row["job"], row["rows"], row["due"]])).toEqual([
    ["resolve_customers", "300", "0"],
    ["validate_customers", expect.stringMatching(/^3\d\d$/), "0"],
    ["enrich_customers", "300", "0"],
  ]);
  const known = await world.value(
    "SELECT round(100.0 * count(gender) / count(*), 1) || '%' FROM person_data.person",
  );
  expect(fields).toContain(`person.gender${known}`);
  expect(fields).toContain("person_phone.phone_number100.0%");

  // Segments and deaths.
  const members = await world.value("SELECT count(*) FROM person_data.segment_member WHERE is_member");
  expect(tables["Segments"]).toMatchObject([{ segment: "Our customers", members, "removal pending": "0" }]);
  expect(charts["Members of segments per day"]).toHaveLength(90);
  const deaths = await query(
    `SELECT 'week of ' || date_trunc('week', first_observed_at)::date || ': ' || count(*) FROM death_signal
    WHERE first_observed_at >= date_trunc('week', now()) - interval '25 weeks' GROUP BY date_trunc('week', first_observed_at) ORDER BY 1`,
  );
  const [title = ""] = Object.keys(charts).filter((name) => name.startsWith("Deaths per week"));
  expect(charts[title]).toEqual(deaths);

  // Rejects with their command, destinations, drift.
  expect(tables["Open rejects"]?.map((row) => `${row["job"]} ${row["rejects"]} ${row["to retry"]}`)).toEqual(
    await query(
      `SELECT job, count(*), 'person-etl rejects retry --job ' || job || ' --code ' || code FROM reject
      WHERE resolved_at IS NULL GROUP BY job, code ORDER BY count(*) DESC, job, code`,
    ),
  );
  expect(tables["Destinations"]).toMatchObject([
    {
      destination: "copy (not configured)",
      published: "just now",
      "keys waiting": "0",
      lag: "none",
      "rows published": "1,234",
    },
  ]);
  expect(tables["Schema drift"]?.map((row) => [row["field"], row["difference"], row["times"]])).toEqual([
    ["phones[].is_connected", "unknown field", "3,120"],
    ["address_history[].num_baths", "unexpected type", "14"],
  ]);

  // Nobody's PID, name, address or number, and no warning of the charts' library.
  const values = await world.rows(
    `SELECT DISTINCT v FROM person_data.person AS p, person_data.person_email AS e, person_data.person_phone AS t,
      LATERAL (VALUES (p.service_pid), (p.full_name), (p.linkedin_url), (e.email_address), (t.phone_number)) AS x(v)
    WHERE e.service_pid = p.service_pid AND t.service_pid = p.service_pid AND v IS NOT NULL`,
  );
  expect(values.length).toBeGreaterThan(500);
  expect(values.filter(({ v }) => html.includes(v ?? ""))).toEqual([]);
  expect(html).not.toContain("⚠");
});

test("a running job is shown with its progress, which a browser asks for", async () => {
  const world = await startWorld({ rows: 60, config: configOf(night) });
  const url = await openPage(world);
  const before = await fetchText(`${url}/running`);
  expect(readPageContent(`<section id="now">${before}</section>`).notes).toEqual({
    now: ["Nothing is running."],
  });
  await world.rows(
    `INSERT INTO person_data_state.job_lock (job, shard, epoch, owner_token, run_id, host, pid, acquired_at, heartbeat_at, expires_at, _synced_at)
    VALUES ('enrich_customers', '0/1', 1, 't', 'night', 'etl-1', 42, now() - interval '65 seconds', now(), now() + interval '1 minute', now()),
      ('resolve_customers', '0/1', 1, 't', 'night', 'etl-1', 41, now() - interval '3 hours', now() - interval '2 hours', now() - interval '1 hour', now());
    INSERT INTO person_data_ops.sync_run SELECT (jsonb_populate_record(NULL::person_data_ops.sync_run, jsonb_object_agg(column_name, 0) || jsonb_build_object(
      'run_id', 'night', 'job', 'enrich_customers', 'shard', '0/1', 'job_type', 'enrich', 'status', 'running', 'limited_by', NULL, 'error', NULL,
      'started_at', now(), 'finished_at', NULL, 'records_due', 1500, 'rows_written', 4000, 'requests', 2, '_synced_at', now(), '_run_id', 'night'))).*
    FROM information_schema.columns WHERE table_name = 'sync_run';
    INSERT INTO person_data_ops.api_call (call_id, run_id, job, call_number, endpoint, started_at, attempt, records_sent, response_bytes, possibly_billed,
      budget, reserved_at, records_reserved, records_in_doubt, records_possibly_billed_twice, _synced_at)
    SELECT gen_random_uuid(), 'night', 'enrich_customers', n, 'POST /v2/enrich', now(), 1, 500, 0, false, 'enrich', now(), 500, 0, 0, now() FROM generate_series(1, 2) AS n`,
  );
  // The answer before is shared for two seconds.
  await expect
    .poll(async () => readPageContent(await fetchText(`${url}/running`)).tables["Running jobs"], {
      timeout: 10_000,
    })
    .toMatchObject([
      {
        job: "resolve_customers",
        state: expect.stringContaining("! no heartbeat since 2 h ago; the next run takes over"),
      },
      {
        job: "enrich_customers",
        state: "● running",
        sent: "1,000",
        due: "1,500",
        "rows written": "4,000",
        requests: "2",
        process: "42 on etl-1",
      },
    ]);
});

test("a section that can't be read leaves the others", async () => {
  const world = await startWorld({ rows: 1, config: configOf(night) });
  await world.rows("ALTER TABLE person_data_ops.schema_drift RENAME TO elsewhere");
  const { notes } = readPageContent(await fetchText(await openPage(world)));
  expect(notes["drift"]).toEqual(["This can't be read at the moment; the log has the cause."]);
  expect(notes["rejects"]).toEqual(["No record is rejected."]);
  expect(world.logged.filter(({ level }) => level === "warn")).toEqual([
    { level: "warn", event: "section_unreadable", fields: expect.objectContaining({ section: "drift" }) },
  ]);
  await world.rows("ALTER TABLE person_data_ops.elsewhere RENAME TO schema_drift");
});

test("a trial is limited, not up to date, and its budget is not extrapolated", async () => {
  const config = configOf(night, "budgets: { resolve: { per_month: 1000 }, enrich: { per_month: 4 } }");
  const world = await startWorld({ rows: 200, config });
  const names = ["resolve_customers", "validate_customers", "enrich_customers"];
  await world.run({ jobs: names, maxRecords: 100 });
  const html = await fetchText(await openPage(world));
  const { tables } = readPageContent(html);
  expect(html).toMatch(/0 of 8 jobs up to date, 3 limited \(\d+ rows due\), 5 no success yet/);
  expect(tables["Jobs"]?.slice(0, 3).map((row) => row["state"])).toEqual(Array(3).fill("! limited"));
  expect(html).toMatch(/<summary>.*limited \(max_records\)/s);
  const [run = ""] = Object.keys(tables).filter((caption) => caption.startsWith("Jobs of run"));
  expect(tables[run]?.map(({ status }) => status)).toEqual([
    "! limited (max_records)",
    "! limited (max_records)",
    "! limited (budget_month)",
  ]);
  expect(tables["Budgets"]?.[0]).toMatchObject({ "projected to run out": "after this month" });
});
