import { expect, test } from "vitest";
import { runCli, runJson } from "./support/cli.ts";
import { makeSetting } from "./support/setting.ts";

const JOBS = `jobs:
  push: { type: segment_push, name: Everybody, sql: "select service_pid from person_data.identity_link", after: resolve }
  resolve: { type: resolve, input: customers }
  members: { type: segment_members, segments: [{ job: push }] }
`;

test("checkpoints are shown with their meaning, moved and forgotten, on the user's word only", async () => {
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
    checkpoints: [{ stream, cursor: { unfinished: null, suppressed: 0 }, run_id: first.document["run_id"] }],
  });
  expect((await runCli(["checkpoint", "show", "push"], setting)).stdout).toContain(String(stream));

  const cursor = JSON.stringify({ swept_at: "2020-01-01T00:00:00Z" });
  const refused = await runJson(["checkpoint", "set", "members", cursor], setting);
  expect([refused.code, refused.document.error?.code]).toEqual([3, "confirmation"]);
  const moved = await runJson(["checkpoint", "set", "members", cursor, "--yes"], setting);
  expect([moved.code, moved.document["checkpoints"]]).toMatchObject([
    0,
    [{ stream, cursor: { swept_at: "2020-01-01T00:00:00Z" } }],
  ]);
  const reset = await runJson(["checkpoint", "reset", "members", "--yes"], setting);
  expect([reset.code, reset.document["checkpoints"]]).toEqual([0, []]);
  expect((await runJson(["run", "members", "--full-refresh"], setting)).code).toBe(0);

  for (const args of [
    ["set", "members", "{oops", "--yes"],
    ["reset", "members", "--stream", "nobody", "--yes"],
  ]) {
    const { code, document } = await runJson(["checkpoint", ...args], setting);
    expect([code, document.error?.code]).toEqual([2, "usage"]);
  }
});
