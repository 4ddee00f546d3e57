import { mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import parsePrometheus from "parse-prometheus-text-format";
import { describe, expect, it, test } from "vitest";
import { startServer } from "../support/http-proxy.ts";
import { atEnd } from "./support/at-end.ts";
import { setFaults } from "./support/controls.ts";
import { type RunningCli, runCli, runJson, startCli } from "./support/cli.ts";
import { API_KEY, makeSetting, type Setting, startSandbox } from "./support/setting.ts";

/** An hour (UTC) far from the present one. */
const HOUR = (new Date().getUTCHours() + 12) % 24;
const NIGHTLY = `jobs:
  resolve_customers: { type: resolve, input: customers, schedule: "15 ${HOUR} * * *" }
  enrich_customers: { type: enrich, input: customers, pid_from: resolve_customers, max_records_per_run: 5 }
`;

/** A new warehouse. Pages use a free port unless other sections say more. */
const settingOf = (jobs = NIGHTLY, more = "http: { port: 0 }\n", baseUrl = "sandbox") =>
  makeSetting({ rows: 60, baseUrl, jobs: jobs + more });

/** First column of every row. */
async function column(setting: Setting, sql: string): Promise<readonly unknown[]> {
  return (await setting.query(sql)).map((row) => Object.values(row)[0]);
}

/** Starts `schedule` and waits until its pages respond. */
async function startSchedule(setting: Setting): Promise<{ readonly cli: RunningCli; readonly url: string }> {
  const cli = startCli(["--json", "schedule"], setting);
  const { url }: { url: string } = JSON.parse(await cli.firstLine());
  return { cli, url };
}

/** Makes this night's slot a missed one: the job has been watched for two days without a run. */
const MISSED = `INSERT INTO person_data_state.schedule_slot (job, slot, due_at, status, owner, attempts, claimed_at, expires_at, ended_at, _synced_at)
  VALUES ('resolve_customers', 'first', now() - interval '2 days', 'watched', 'test', 0, now(), now(), now(), now())`;

const slotsSql =
  "SELECT job || ' ' || status FROM person_data_state.schedule_slot WHERE slot <> 'first' ORDER BY due_at";

describe("schedule", () => {
  it("catches up once on a missed night, reports it to Prometheus with the token, and ends after SIGTERM", async () => {
    const setting = await settingOf(NIGHTLY, "http: { port: 0, token: file:token }\n");
    await writeFile(join(setting.cwd, "token"), "t0ken-of-the-pages\n", { mode: 0o600 });
    expect((await runCli(["migrate"], setting)).code).toBe(0);
    await setting.query(MISSED);
    const { cli, url } = await startSchedule(setting);
    await cli.logged('"job":"enrich_customers","status":"limited"');
    await cli.logged('"event":"job_ended"');
    expect(await (await fetch(`${url}/healthz`)).json()).toEqual({ status: "ok" });
    const ready = await fetch(`${url}/readyz`);
    expect([ready.status, await ready.json()]).toEqual([200, { ready: true, reasons: [] }]);
    expect((await fetch(`${url}/metrics`)).status).toBe(401);
    const headers = { authorization: "Bearer t0ken-of-the-pages" };
    const page = await fetch(`${url}/metrics`, { headers });
    expect(page.headers.get("content-type")).toMatch(/^text\/plain; version=0\.0\.4/);
    const families = parsePrometheus(await page.text());
    const metric = (name: string, labels: Readonly<Record<string, string>>) =>
      families
        .find((family) => family.name === `person_etl_${name}`)
        ?.metrics.find((one) => Object.entries(labels).every(([key, value]) => one.labels?.[key] === value))
        ?.value;
    expect(metric("runs_total", { job: "resolve_customers", status: "succeeded" })).toBe("1");
    expect(metric("runs_total", { job: "enrich_customers", status: "limited" })).toBe("1");
    expect(metric("attempts_total", { endpoint: "POST /v2/enrich", status: "200" })).toBe("1");
    expect(metric("records_total", { job: "enrich_customers", outcome: "sent" })).toBe("5");
    expect(metric("job_fresh", { job: "resolve_customers" })).toBe("1");
    expect(metric("warehouse_up", {})).toBe("1");
    expect((await fetch(`${url}/other`)).status).toBe(404);
    cli.child.kill("SIGTERM");
    const { code, stderr } = await cli.result;
    expect([code, stderr.includes("t0ken")]).toEqual([143, false]);
    expect(await column(setting, slotsSql)).toEqual(["resolve_customers succeeded"]);

    // The night is done: a restart finds nothing to catch up on.
    const again = await startSchedule(setting);
    expect((await fetch(`${again.url}/readyz`)).status).toBe(200);
    again.cli.child.kill("SIGINT");
    expect((await again.cli.result).code).toBe(130);
    expect(await column(setting, slotsSql)).toEqual(["resolve_customers succeeded"]);
    const { document } = await runJson(["status"], setting);
    expect(document["jobs"]).toMatchObject([
      {
        job: "resolve_customers",
        freshness: "fresh",
        next_slot_at: expect.stringContaining(`T${String(HOUR).padStart(2, "0")}:15:00.000Z`),
      },
      { job: "enrich_customers", freshness: "limited", schedule: null },
    ]);
  });

  it("finishes erasures that waited for its publication", async () => {
    const publish = "publish:\n  local: { type: duckdb, path: copies/people.duckdb }\n";
    const setting = await settingOf(NIGHTLY, `${publish}http: { port: 0 }\n`);
    const [copies, away] = ["copies", "away"].map((name) => join(setting.cwd, name)) as [string, string];
    await mkdir(copies);
    await runCli(["run"], setting);
    const [pid] = await column(setting, "SELECT service_pid FROM person_data.person LIMIT 1");
    await rename(copies, away);
    expect((await runCli(["erase", "--pid", String(pid), "--yes"], setting)).code).toBe(3);
    await rename(away, copies);
    await setting.query(MISSED);
    const { cli } = await startSchedule(setting);
    const pending = "SELECT FROM person_data_ops.erasure_subject WHERE completed_at IS NULL";
    await expect.poll(() => setting.query(pending), { timeout: 30_000 }).toEqual([]);
    cli.child.kill("SIGTERM");
    await cli.result;
  });

  it("reloads the configuration on SIGHUP, and keeps the old one if the new one is invalid", async () => {
    const setting = await settingOf();
    const { cli } = await startSchedule(setting);
    await setting.configure({ jobs: NIGHTLY.replace("15 ", "61 ") });
    cli.child.kill("SIGHUP");
    await cli.logged("reload_refused");
    const anew = NIGHTLY.replace("15 ", "16 ").replaceAll("resolve_customers", "resolve_anew");
    await setting.configure({ jobs: `${anew}http: { port: 0 }\n` });
    cli.child.kill("SIGHUP");
    await cli.logged('"jobs":["resolve_anew"],"event":"reloaded"');
    cli.child.kill("SIGTERM");
    const { code, stderr } = await cli.result;
    expect(code).toBe(143);
    expect(stderr).toContain('"path":"jobs.resolve_customers.schedule"');
  });

  it("drains on SIGTERM; a second one ends immediately, and the next start resumes the night", async () => {
    const slow = await startSandbox(".", ["--faults", "slow=60000@resolve"]);
    const only = `jobs:\n  resolve_customers: { type: resolve, input: customers, schedule: "15 ${HOUR} * * *" }\n`;
    const setting = await settingOf(only, undefined, slow);
    expect((await runCli(["migrate"], setting)).code).toBe(0);
    await setting.query(MISSED);
    const { cli } = await startSchedule(setting);
    // The ledger has the call before it is sent.
    const inFlight = "SELECT count(*)::text FROM person_data_ops.api_call WHERE settled_at IS NULL";
    while ((await column(setting, inFlight))[0] !== "1") await delay(50);
    cli.child.kill("SIGTERM");
    await cli.logged('"event":"stopping"');
    await delay(1100);
    cli.child.kill("SIGTERM");
    expect((await cli.result).code).toBe(143);
    expect(await column(setting, slotsSql)).toEqual(["resolve_customers claimed"]);
    await setting.query(
      "UPDATE person_data_state.schedule_slot SET expires_at = now() WHERE ended_at IS NULL",
    );
    await setFaults(slow, "");
    const again = await startSchedule(setting);
    await again.cli.logged('"job":"resolve_customers","status":"succeeded"');
    again.cli.child.kill("SIGTERM");
    await again.cli.result;
    expect(await column(setting, slotsSql)).toEqual(["resolve_customers succeeded"]);
    const ended = `SELECT ((SELECT count(*) FROM person_data.resolution) +
      (SELECT count(*) FROM person_data.reject WHERE resolved_at IS NULL))::text`;
    expect(await column(setting, ended)).toEqual(["60"]);
  });
});

/** A webhook that stores its requests. */
async function startWebhook() {
  const webhook = { url: "", received: [] as object[], status: 200 };
  const server = await startServer(async (_request, response, body) => {
    webhook.received.push(JSON.parse(body.toString()));
    response.writeHead(webhook.status).end();
  });
  atEnd(server.close);
  webhook.url = `${server.url}/T0/secret-path`;
  return webhook;
}

const ALERTS = 'alerts: { webhook: "${WEBHOOK}" }\n';

test("alerts report each change of a state once, also of runs that can't start, and retry those not delivered", async () => {
  const webhook = await startWebhook();
  const setting = await settingOf(NIGHTLY, ALERTS, await startSandbox("."));
  const run = (key = API_KEY) =>
    runCli(["run", "resolve_customers", "--resend", "--yes"], {
      ...setting,
      env: { ...setting.env, WEBHOOK: webhook.url, PERSON_SERVICE_API_KEY: key },
    });
  expect((await run()).code).toBe(0);
  expect(webhook.received).toEqual([]);

  await setting.query("ALTER TABLE crm.customers RENAME last_name TO surname");
  webhook.status = 500;
  expect((await run()).code).toBe(2);
  expect(webhook.received.length).toBeGreaterThan(1);
  webhook.received.length = 0;
  webhook.status = 200;
  expect((await run()).code).toBe(2);
  expect((await run()).code).toBe(2);
  const refused = { subject: "run", state: "inputs", before: "ok", what_to_do: expect.any(String) };
  expect(webhook.received).toMatchObject([{ source: "person-etl", alerts: [refused] }]);

  await setting.query("ALTER TABLE crm.customers RENAME surname TO last_name");
  const failing = await run("revoked-key-4711");
  expect(failing.code).toBe(1);
  const rejected = { subject: "job resolve_customers", state: "key_rejected", before: "ok" };
  const startsAgain = { subject: "run", state: "ok", before: "inputs" };
  expect(webhook.received.slice(1)).toMatchObject([{ alerts: [rejected, startsAgain] }]);

  await setting.configure({ jobs: NIGHTLY + ALERTS.replace(" }", ", format: slack }") });
  expect((await run()).code).toBe(0);
  expect(webhook.received.slice(2)).toEqual([
    {
      text: expect.stringContaining(
        ":white_check_mark: *job resolve_customers*: resolve_customers succeeded.",
      ),
    },
  ]);
  expect(JSON.stringify([failing.stderr, webhook.received])).not.toMatch(/secret-path|key-4711|T0\//);
});
