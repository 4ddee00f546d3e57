import { expect, test } from "vitest";
import { runJson } from "./support/cli.ts";
import { makeSetting } from "./support/setting.ts";

const JOBS = `jobs:
  push: { type: segment_push, name: Everybody, sql: "select service_pid from person_data.identity_link", after: resolve }
  resolve: { type: resolve, input: customers }
  members: { type: segment_members, segments: [{ job: push }] }
  searches: { type: search_usage, enabled: false }
`;

test("checkpoints are shown with their meaning, and moved or deleted only on request", async () => {
  const setting = await makeSetting({ jobs: JOBS, rows: 60 });
  const first = await runJson(["run"], setting);
  expect([first.code, first.document.status]).toEqual([0, "succeeded"]);

  const { document } = await runJson(["checkpoint", "show", "members"], setting);
  const [stored] = await setting.query("SELECT segment_id FROM person_data.segment");
  const stream = stored?.["segment_id"];
  expect(document).toMatchObject({
    job: "members",
    type: "segment_members",
    meaning: expect.stringContaining("swept_at"),
    checkpoints: [{ stream, cursor: { suppressed: 0 }, run_id: first.document["run_id"] }],
  });

  const cursor = JSON.stringify({ swept_at: "2020-01-01T00:00:00Z" });
  const refused = await runJson(["checkpoint", "set", "members", cursor], setting);
  expect([refused.code, refused.document.error?.code]).toEqual([3, "confirmation"]);
  const moved = await runJson(["checkpoint", "set", "members", cursor, "--yes"], setting);
  expect([moved.code, moved.document["checkpoints"]]).toMatchObject([
    0,
    [{ stream, cursor: { swept_at: "2020-01-01T00:00:00Z", suppressed: 0 } }],
  ]);
  // The checkpoint of a disabled job can be read and changed.
  const next = await runJson(["checkpoint", "set", "searches", '{"next":"2026-01-01"}', "--yes"], setting);
  expect([next.code, next.document["checkpoints"]]).toMatchObject([0, [{ stream: "history" }]]);

  await setting.query(`UPDATE person_data_state.job_lock SET released_at = NULL, host = 'elsewhere', machine = NULL, expires_at = now() + interval '1 hour'
    WHERE job = 'members'`);
  const locked = await runJson(["checkpoint", "reset", "members", "--yes"], setting);
  expect([locked.code, locked.document.error?.code]).toEqual([4, "locked"]);
  await setting.query("UPDATE person_data_state.job_lock SET expires_at = now() WHERE job = 'members'");
  const reset = await runJson(["checkpoint", "reset", "members", "--yes"], setting);
  expect([reset.code, reset.document["checkpoints"]]).toEqual([0, []]);
  expect((await runJson(["run", "members", "--full-refresh"], setting)).code).toBe(0);

  for (const [error, ...args] of [
    ["usage", "set", "members", "{oops", "--yes"],
    ["usage", "reset", "members", "--stream", "nobody", "--yes"],
    ["bad_checkpoint", "set", "members", "[]", "--yes"],
    ["unknown_job", "show", "nobody"],
  ]) {
    const { code, document } = await runJson(["checkpoint", ...args], setting);
    expect([args, code, document.error?.code]).toEqual([args, 2, error]);
  }
});
