import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runJson } from "./support/cli.ts";
import { configText, makeSetting, startSandbox } from "./support/setting.ts";

const JOBS = `jobs:
  push: { type: segment_push, name: All, sql: "select '' as service_pid" }
  members: { type: segment_members, segments: [{ job: push }] }
  deaths: { type: death_signals, segments: [{ job: push }] }
  searches: { type: search_usage }
`;

test("check tells of every endpoint of the feeds whether the key may call it, and changes nothing", async () => {
  const setting = await makeSetting();
  const sandbox = await startSandbox(setting.cwd, ["--faults", "forbidden@deaths"]);
  await writeFile(join(setting.cwd, "config.yaml"), configText({ baseUrl: sandbox, jobs: JOBS }));
  const { document } = await runJson(["check"], setting);
  // What the command prints.
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
