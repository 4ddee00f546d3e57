import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runHere, runHereJson } from "./support/in-process.ts";
import { configText, makeSetting, startSandbox } from "./support/setting.ts";
import { unusedPort } from "../support/unused-port.ts";

const JOBS = `jobs:
  push: { type: segment_push, name: All, sql: "select '' as service_pid" }
  members: { type: segment_members, segments: [{ job: push }] }
  deaths: { type: death_signals, segments: [{ job: push }] }
  searches: { type: search_usage }
`;

test("check reports for every feed endpoint whether the key may call it, and changes nothing", async () => {
  const setting = await makeSetting();
  const sandbox = await startSandbox(setting.cwd, ["--faults", "forbidden@deaths"]);
  await writeFile(join(setting.cwd, "config.yaml"), configText({ baseUrl: sandbox, jobs: JOBS }));
  const { document } = await runHereJson(["check"], setting);
  // Output of the command.
  const checks = document["checks"] as { subject: string; status: string }[];
  expect(
    checks
      .filter(({ subject }) => /^(GET|POST) /u.test(subject))
      .map((line) => `${line.subject} ${line.status}`),
  ).toEqual([
    "POST /v2/segments/create ok",
    "GET /v2/segments/members ok",
    "POST /v2/segments/members/add ok",
    "POST /v2/segments/members/remove ok",
    "GET /v2/segments/signals/deaths wrong",
    "GET /person-search/v0/usage ok",
  ]);
  const made = await (await fetch(`${sandbox}/_sandbox/segments`)).json();
  expect(made).toEqual({ segments: [] });
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
  // Output of the command.
  const checks = document["checks"] as { subject: string; status: string; message: string }[];
  expect(
    checks
      .filter(({ subject }) => subject.startsWith("query of"))
      .map(({ subject, status, message }) => [subject, status, message]),
  ).toEqual([
    ["query of good", "ok", "can be read and returns service_pid"],
    ["query of early", "ok", expect.stringContaining("the first run creates")],
    ["query of bad", "wrong", "jobs.bad.sql: the query of `sql:` has no column service_pid."],
    ["query of far", expect.stringMatching(/wrong|unreachable/u), expect.stringContaining("down")],
  ]);
});

const SEGMENT = "11111111-1111-4111-8111-111111111111";

test("check names the segment that a changed name leaves behind", async () => {
  const setting = await makeSetting({
    jobs: `jobs:\n  push: { type: segment_push, name: New, sql: "select '' as service_pid" }\n`,
  });
  await runHere(["migrate"], setting);
  await setting.query(`INSERT INTO person_data_ops.checkpoint (job, stream, cursor, updated_at, run_id, _synced_at)
    VALUES ('push', 'segment', '{"segment_id": "${SEGMENT}", "name": "Old"}', now(), 'r', now())`);
  const { document } = await runHereJson(["check"], setting);
  expect(document["checks"]).toContainEqual({
    subject: "jobs.push",
    status: "warning",
    message: `another segment is created under the name "New"; ${SEGMENT} ("Old"), which it filled so far, stays as it is`,
  });
});

test("plan and status describe segments in words", async () => {
  const setting = await makeSetting({
    jobs: `jobs:
  push: { type: segment_push, segment_id: ${SEGMENT}, sql: "select 'p-9' as service_pid", mode: mirror }
  members: { type: segment_members, segments: [{ id: ${SEGMENT}, name: VIP }] }
`,
  });
  await runHere(["migrate"], setting);
  await setting.query(`
    INSERT INTO person_data_state.segment_push_member (job, segment_id, service_pid, is_wanted, state, is_own, run_id, _synced_at)
      VALUES ('push', '${SEGMENT}', 'p-1', true, 'member', NULL, 'r', now());
    INSERT INTO person_data.segment (segment_id, current_size, _synced_at, _run_id) VALUES ('${SEGMENT}', 9, now(), 'r');
    INSERT INTO person_data_ops.segment_sync (segment_id, run_id, observed_at, current_size, known_members, added, removed,
      removals_pending, _synced_at) VALUES ('${SEGMENT}', 'r', '2026-11-20T04:00:00Z', 9, 12, 0, 0, 3, now());
    INSERT INTO person_data_ops.checkpoint (job, stream, cursor, updated_at, run_id, _synced_at)
      VALUES ('members', '${SEGMENT}', '{"swept_at": "2026-11-20T04:00:00Z"}', now(), 'r', now())`);
  const planned = await runHere(["plan"], setting);
  expect(planned.stdout).toContain(`push
  • more calls, one for each further page of 5,000 members and for each 10,000 PIDs to add or to remove`);
  const { stdout } = await runHere(["status"], setting);
  expect(stdout).toContain(`members: 3 members of VIP (${SEGMENT}) not listed at 2026-11-20T04:00:00`);
  expect(stdout).toContain(`push: 1 member of ${SEGMENT} in doubt; the job never removes them`);
  expect(stdout).toMatch(/members +VIP +swept at 2026-11-20T04:00:00Z +just now/u);
});
