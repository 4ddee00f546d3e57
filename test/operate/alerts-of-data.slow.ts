import { describe, expect, test } from "vitest";
import { statesOfTime } from "../../src/operate/alerts.ts";
import { compareShare } from "../../src/operate/business-alerts.ts";
import { fine, load } from "../config/support.ts";
import { configOf, startWorld, type World } from "../jobs/world.ts";
import { conclude, runAndConclude, startWebhook, warnings } from "./alerts-world.ts";

const enrich = "\n  enrich_customers: { type: enrich, input: customers }";

/** PID of a person in no input. */
async function strangerOf(world: World): Promise<string> {
  const pid = await world.value(`SELECT relative_service_pid FROM person_data.person_relative
    WHERE relative_service_pid NOT IN (SELECT service_pid FROM person_data.identity_link) ORDER BY 1 LIMIT 1`);
  return pid ?? "";
}

describe("deaths", () => {
  const jobs = `${enrich}
  customer_segment: { type: segment_push, name: Our customers, sql: select service_pid from person_data.identity_link, after: enrich_customers }
  customer_deaths: { type: death_signals, segments: [{ job: customer_segment }] }`;

  test("of the user's people are reported once each, also after a webhook that failed", async () => {
    const webhook = await startWebhook();
    const config = configOf(jobs, `alerts: { webhook: "${webhook.setting}", on: [deaths] }`);
    const world = await startWorld({ rows: 60, config });
    const [first] = (await world.run()).jobs.slice(-1);
    const known = await world.value("SELECT count(DISTINCT service_pid) FROM person_data.deceased_customer");
    await world.run();
    // Turned on later: what was known before is no news.
    await runAndConclude(world);
    expect([first?.job, webhook.take()]).toEqual(["customer_deaths", []]);

    const living = (
      await world.rows(`SELECT DISTINCT service_pid FROM person_data.identity_link
      WHERE service_pid NOT IN (SELECT service_pid FROM person_data.death_signal) ORDER BY 1 LIMIT 4`)
    ).map((row) => row["service_pid"] ?? "");
    const die = (...pids: readonly (string | undefined)[]) =>
      world.control("/deaths", {
        set: pids.map((service_pid) => ({
          service_pid,
          obituary_id: `o-${service_pid}`,
          date_of_death: "2026-11-01",
        })),
      });
    // A member of the segment who is in no input.
    await world.control("/members", {
      segment_id: await world.value("SELECT segment_id FROM person_data.segment"),
      add: [await strangerOf(world)],
      remove: [],
    });
    await die(living[0], living[1], await strangerOf(world));
    const report = await runAndConclude(world);
    expect(await world.value("SELECT count(*) FROM person_data.segment_death_signal")).toBe(
      String(Number(known) + 3),
    );
    expect(webhook.take()).toEqual([
      ["deaths", "new_deaths", "2 people in your inputs have a first death signal."],
    ]);
    await conclude(world, report);
    await runAndConclude(world);
    expect(webhook.take()).toEqual([]);

    webhook.status = 404;
    await die(living[2]);
    await runAndConclude(world);
    webhook.status = 200;
    // Another obituary of someone who is dead already is no news.
    await world.control("/deaths", { set: [{ service_pid: living[0], obituary_id: "o-second" }] });
    await runAndConclude(world);
    expect(webhook.take()).toEqual([
      ["deaths", "new_deaths", "1 person in your inputs has a first death signal."],
    ]);
    await runAndConclude(world);
    expect(webhook.take()).toEqual([]);
  });

  test("of the first run are all reported", async () => {
    const webhook = await startWebhook();
    const config = configOf(jobs, `alerts: { webhook: "${webhook.setting}", on: [deaths] }`);
    const world = await startWorld({ rows: 400, config });
    await runAndConclude(world);
    const dead = await world.value("SELECT count(DISTINCT service_pid) FROM person_data.deceased_customer");
    expect(Number(dead)).toBeGreaterThan(1);
    expect(webhook.take()).toEqual([
      ["deaths", "new_deaths", `${dead} people in your inputs have a first death signal.`],
    ]);
  });
});

test("job_changes above the limit are reported once per run, also after a webhook that failed", async () => {
  const webhook = await startWebhook();
  const configWith = (limit: number) =>
    configOf(
      enrich,
      `alerts: { webhook: "${webhook.setting}", on: [job_changes], job_changes_above: ${limit} }`,
    );
  const world = await startWorld({ rows: 150, config: configWith(5) });
  await runAndConclude(world);
  await world.control("/clock", { days: 400 });
  const report = await runAndConclude(world, { runId: "night-2", resend: true, yes: true });
  const changed = Number(
    await world.value(
      "SELECT count(DISTINCT service_pid) FROM person_data.person_history WHERE field_group = 'work_experience'",
    ),
  );
  expect(changed).toBeGreaterThan(5);
  expect(webhook.take()).toEqual([
    ["job_changes", "many_job_changes", `The jobs of ${changed} people changed in run night-2, more than 5.`],
  ]);
  await conclude(world, report);
  await runAndConclude(world);
  expect(webhook.take()).toEqual([]);

  webhook.status = 404;
  await world.control("/clock", { days: 400 });
  await runAndConclude(world, { runId: "night-4", resend: true, yes: true });
  webhook.status = 200;
  await runAndConclude(world);
  expect(webhook.take()).toEqual([
    ["job_changes", "many_job_changes", expect.stringContaining("changed in run night-4, more than 5.")],
  ]);
  await runAndConclude(world);

  world.configure(configWith(1000));
  await world.control("/clock", { days: 400 });
  await runAndConclude(world, { resend: true, yes: true });
  expect(webhook.take()).toEqual([]);
});

test("an alert that can't be read fails neither the run nor other alerts", async () => {
  const webhook = await startWebhook();
  const alerts = `alerts: { webhook: "${webhook.setting}", on: [failed, match_rate, job_changes], job_changes_above: 0 }`;
  const world = await startWorld({ rows: 60, config: configOf(enrich, alerts) });
  await runAndConclude(world);
  await world.rows("ALTER TABLE person_data_state.run_share RENAME TO gone");
  await world.control("/clock", { days: 400 });
  const { status } = await runAndConclude(world, { resend: true, yes: true });
  expect(status).toBe("succeeded");
  expect(webhook.take().map(([subject]) => subject)).toEqual(["job_changes"]);
  expect(warnings(world)).toEqual(["alert_unreadable"]);
  expect(JSON.stringify(world.logged)).not.toMatch(/@/);
});

test("a webhook that closes the connection is not taken for the warehouse, and is asked three times", async () => {
  const webhook = await startWebhook();
  const alerts = `alerts: { webhook: "${webhook.setting}" }`;
  const world = await startWorld({ rows: 10, config: configOf(enrich, alerts) });
  await world.control("/capacity", { records: 0, code: "insufficient_credits" });
  webhook.status = 0;
  await runAndConclude(world);
  expect(webhook.requests).toBe(3);
  expect(warnings(world)).toEqual(["alerts_failed"]);
  webhook.status = 200;
  await runAndConclude(world);
  expect(webhook.take().map(([subject]) => subject)).toContain("job enrich_customers");
});

test("nothing is measured or reported that alerts.on doesn't name", async () => {
  const webhook = await startWebhook();
  const world = await startWorld({
    rows: 60,
    config: configOf(enrich, `alerts: { webhook: "${webhook.setting}" }`),
  });
  await runAndConclude(world);
  await world.control("/clock", { days: 700 });
  await runAndConclude(world, { resend: true, yes: true });
  expect(webhook.take()).toEqual([]);
  expect(await world.value("SELECT count(*) FROM person_data_state.run_share")).toBe("0");
});

test("plan_left reports a plan that is nearly used up, and one that won't last at a known pace", async () => {
  const env = { SERVICE_URL: "https://service.example" };
  const config = await load(`${fine}alerts: { webhook: "\${SERVICE_URL}", on: [plan_left] }\n`, { env });
  const plan = {
    of: "enrich",
    basis: "included_per_month" as const,
    limit: 1000,
    used: 500,
    left: 500,
    stated_at: null,
    stated: null,
    lasts_until: null,
    pace_days: 7,
  };
  const stateWith = (changes: object) => {
    const status = { jobs: [], budgets: [], attention: [], plan_left: [{ ...plan, ...changes }] };
    return statesOfTime(config, status).map(({ state, message }) => `${state}: ${message}`);
  };
  const until = { lasts_until: "2026-11-28T10:00:00Z" };
  expect(stateWith({})).toEqual(["ok: plan enrich is ok again."]);
  expect(stateWith({ left: 99, used: 901 })).toEqual([
    "plan_low: enrich: 99 records left of the 1,000 records included this month (UTC).",
  ]);
  expect(stateWith({ left: 100, used: 900 })).toEqual(["ok: plan enrich is ok again."]);
  expect(stateWith(until)).toEqual([
    "plan_low: enrich: 500 records left of the 1,000 records included this month (UTC), projected to run out at 2026-11-28 10:00 UTC.",
  ]);
  // The first night's pace is no pace.
  expect(stateWith({ ...until, pace_days: 1 })).toEqual(["ok: plan enrich is ok again."]);
  expect(stateWith({ left: 0, used: 1000 })).toEqual([
    "plan_used_up: enrich: 0 records left of the 1,000 records included this month (UTC), used up.",
  ]);
  const stated = {
    basis: "stated" as const,
    limit: null,
    stated_at: "2026-11-27T10:00:00Z",
    stated: { records_available: 25 },
  };
  expect(stateWith({ ...stated, left: 20 })[0]).toMatch(/^plan_low: /);
  expect(stateWith({ ...stated, left: null })[0]).toMatch(/^ok: /);
});

const of = (known: number, all = 1000) => ({ known, of: all });

describe("a share is compared with the median of the last runs of similar size", () => {
  test.each<readonly [string, Parameters<typeof compareShare>, ReturnType<typeof compareShare>]>([
    ["first run", [of(0), []], null],
    ["one run before", [of(0), [of(900)]], null],
    ["about a fifth less", [of(721), [of(900), of(900)]], { before: 0.9, runs: 2, isLow: false }],
    ["more than a fifth less", [of(719), [of(900), of(900)]], { before: 0.9, runs: 2, isLow: true }],
    [
      "one odd run before",
      [of(850), [of(10), of(900), of(900), of(900)]],
      { before: 0.9, runs: 4, isLow: false },
    ],
    [
      "the last four",
      [of(500), [of(600), of(600), of(600), of(600), of(900)]],
      { before: 0.6, runs: 4, isLow: false },
    ],
    [
      "trials left out",
      [of(500), [of(99, 99), of(99, 99), of(600), of(600)]],
      { before: 0.6, runs: 2, isLow: false },
    ],
    [
      "a first load left out",
      [of(500), [of(10_001, 10_001), of(600), of(600)]],
      { before: 0.6, runs: 2, isLow: false },
    ],
    ["few records", [of(0, 500), [of(900), of(900)]], null],
    ["a rare field", [of(0), [of(100), of(100)]], null],
    ["zero records", [of(0, 0), [of(900), of(0, 0)]], null],
  ])("%s", (_, given, expected) => {
    expect(compareShare(...given)).toEqual(expected);
  });
});
