import { expect, test } from "vitest";
import { controlSandbox } from "../support/sandbox-control.ts";
import { unusedPort } from "../support/unused-port.ts";
import { runHere, runHereJson } from "./support/in-process.ts";
import { readLedger } from "./support/controls.ts";
import { makeServed, makeSetting } from "./support/setting.ts";

const JOBS = `jobs:
  enrich: { type: enrich, input: customers }
  push: { type: segment_push, name: All, sql: "select '' as service_pid" }
  members: { type: segment_members, segments: [{ job: push }] }
  deaths: { type: death_signals, segments: [{ job: push }] }
  searches: { type: search_usage }
`;

/** Findings in the document of `check`, as `subject: status, message`. */
function findingsOf(document: object): readonly string[] {
  // By the contract.
  const { checks } = document as { checks: { subject: string; status: string; message: string }[] };
  return checks.map(({ subject, status, message }) => `${subject}: ${status}, ${message}`);
}

test("check reports for every endpoint whether the key may call it; it sends no record and changes nothing", async () => {
  const setting = await makeServed({ jobs: JOBS }, "--faults", "forbidden@deaths");
  const { code, document } = await runHereJson(["check"], setting);
  expect(code).toBe(2);
  expect(findingsOf(document).filter((line) => /^(GET|POST) /u.test(line))).toEqual([
    "POST /v2/enrich: ok, the key has access",
    "POST /v2/segments/create: ok, the key has access",
    "GET /v2/segments/members: ok, the key has access",
    "POST /v2/segments/members/add: ok, the key has access",
    "POST /v2/segments/members/remove: ok, the key has access",
    "GET /v2/segments/signals/deaths: wrong, the key has no access (403)",
    "GET /person-search/v0/usage: ok, the key has access",
  ]);
  expect(await controlSandbox(setting.baseUrl, "/segments")).toEqual({ segments: [] });
  expect(JSON.stringify(await readLedger(setting.baseUrl))).not.toMatch(/"(records|billed|matched)":[1-9]/);
});

test("check reports a service that is unreachable, or rejects the key, and a data_dir in memory", async () => {
  const nowhere = `http://127.0.0.1:${await unusedPort()}`;
  const setting = await makeServed({ rows: 1 }, "--api-key", "another-key");
  const env = { ...setting.env, PERSON_ETL_DATA_DIR: "/dev/shm/person-etl" };
  const check = async () => {
    const { code, document } = await runHereJson(["check"], { ...setting, env });
    return [code, findingsOf(document)] as const;
  };
  const [code, findings] = await check();
  expect([code, findings.at(-1)]).toEqual([2, `API key: wrong, ${setting.baseUrl} rejects the key (401)`]);
  expect(findings).toContain(
    "data_dir: warning, /dev/shm is on tmpfs: received responses that wait to be loaded would be lost with the machine or container",
  );
  await setting.configure({ baseUrl: nowhere });
  const [unreachable, others] = await check();
  const message = `service: unreachable, ${nowhere} is unreachable (ECONNREFUSED)`;
  expect([unreachable, others.at(-1)]).toEqual([1, message]);
});

test("check reports pushes whose query returns no PID or whose connection is down", async () => {
  const setting = await makeSetting({
    jobs: `connections:
  down: { type: postgres, url: "\${DOWN_URL}" }
jobs:
  good: { type: segment_push, name: Good, sql: "select '' as service_pid" }
  early: { type: segment_push, name: Early, sql: "select service_pid from person_data.identity_link" }
  bad: { type: segment_push, name: Bad, sql: "select '' as pid" }
  far: { type: segment_push, name: Far, sql: "select '' as service_pid", connection: down }
`,
  });
  const env = { ...setting.env, DOWN_URL: `postgresql://u:p@127.0.0.1:${await unusedPort()}/db` };
  const { code, document } = await runHereJson(["check"], { ...setting, env });
  expect(code).toBe(2);
  expect(findingsOf(document).filter((line) => line.startsWith("query of"))).toEqual([
    "query of good: ok, can be read and returns service_pid",
    expect.stringMatching(/^query of early: ok, .*the first run creates/u),
    "query of bad: wrong, jobs.bad.sql (line 17): the query of `sql:` has no column service_pid.",
    expect.stringMatching(/^query of far: (?:wrong|unreachable), .*down/u),
  ]);
});

test("check warns before a push with a changed name creates another segment", async () => {
  const push = `jobs:\n  push: { type: segment_push, name: Opted out, sql: "select '' as service_pid" }\n`;
  const setting = await makeSetting({ jobs: push });
  await runHere(["migrate"], setting);
  await setting.query(`INSERT INTO person_data_ops.checkpoint (job, stream, cursor, updated_at, run_id, _synced_at)
    VALUES ('push', 'segment', '{"segment_id": "s-1", "name": "VIP"}', now(), 'r-1', now())`);
  const { document } = await runHereJson(["check"], setting);
  expect(findingsOf(document)).toContain(
    'jobs.push: warning, another segment is created under the name "Opted out"; s-1 ("VIP"), which it filled so far, stays as it is',
  );
});

test("check says that the service has deprecated an endpoint, until another path is set", async () => {
  const setting = await makeServed({ jobs: "jobs:\n  resolve: { type: resolve, input: customers }\n" });
  const check = async () =>
    findingsOf((await runHereJson(["check"], setting)).document).filter((line) => line.startsWith("POST"));
  expect(await check()).toEqual([
    "POST /v1/resolve: ok, the key has access",
    "POST /v1/resolve: warning, works, but is deprecated",
  ]);
  await setting.configure({ service: "  endpoints: { resolve: /v2/enrich }\n" });
  expect(await check()).toEqual(["POST /v1/resolve: ok, the key has access"]);
  await setting.configure({ service: "  endpoints: { resolve: /v3/resolve }\n" });
  expect(await check()).toEqual(["POST /v1/resolve: wrong, doesn't exist (404)"]);
});
