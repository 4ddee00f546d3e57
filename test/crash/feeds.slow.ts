import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { makeFolder, runCli, startCli } from "../cli/support/cli.ts";
import { configText, makeSetting, type Setting, startSandbox } from "../cli/support/setting.ts";
import { controlSandbox } from "../support/sandbox-control.ts";
import { seededPart } from "../support/test-size.ts";

/** Twelve pages of 5,000, each with its own commit. */
const MEMBERS = 58_000;

const jobsOf = (segment: string, name: string) => `jobs:
  members: { type: segment_members, segments: [{ id: ${segment} }] }
  push: { type: segment_push, name: "${name}", mode: mirror, max_remove_ratio: 1, sql: "select pid as service_pid from crm.vip" }
`;

interface Member {
  readonly service_pid: string;
  readonly is_member: boolean;
}

let sandbox = "";
beforeAll(async () => {
  sandbox = await startSandbox(await makeFolder(), ["--people", "70000"]);
});

async function control<T>(path: string, body?: object): Promise<T> {
  // Answer of the sandbox's controls.
  return (await controlSandbox(sandbox, path, body)) as T;
}

async function livingOf(segment: string): Promise<readonly string[]> {
  const { members } = await control<{ members: Member[] }>(`/segments/${segment}/members?limit=100000`);
  return members.filter(({ is_member }) => is_member).map(({ service_pid: pid }) => pid);
}

async function prepare(name: string, size = MEMBERS): Promise<{ setting: Setting; segment: string }> {
  const { segment_id: segment } = await control<{ segment_id: string }>("/segments", {
    name,
    members: size,
    batch: 7000,
    at: "2026-10-01T00:00:00Z",
  });
  const setting = await makeSetting();
  const text = configText({ baseUrl: sandbox, jobs: jobsOf(segment, `${name} pushed`) });
  await writeFile(join(setting.cwd, "config.yaml"), text);
  return { setting, segment };
}

async function killed(setting: Setting, job: string, at: string, ...more: string[]): Promise<void> {
  const env = { ...setting.env, PERSON_ETL_CRASH_AT: at };
  const { child, result } = startCli(["--json", "run", job, ...more], { ...setting, env });
  await result;
  expect([at, child.signalCode]).toEqual([at, "SIGKILL"]);
}

async function finish(setting: Setting, job: string) {
  const { code, stdout } = await runCli(["--json", "run", job], setting);
  expect({ code, stdout }).toMatchObject({ code: 0 });
  // Output of `run --json`.
  const { jobs } = JSON.parse(stdout) as { jobs: { records_sent: number; requests: number }[] };
  return jobs[0];
}

async function membersIn(setting: Setting, sql: string): Promise<readonly string[]> {
  return (await setting.query(sql)).map((row) => String(row["pid"])).toSorted();
}

const KNOWN = "SELECT service_pid AS pid FROM person_data.segment_member WHERE is_member";

describe("the members of a segment, when a run is killed and the segment changes in the meantime", () => {
  const kills = [
    "after_receive:1",
    "after_receive:4",
    "after_commit:1",
    "after_receive:12",
    "before_commit:2",
  ];
  test.each(seededPart(kills, 4))("at %s, are exact after the next run", async (at) => {
    const { setting, segment } = await prepare(`killed first ${at}`);
    await killed(setting, "members", at);
    const living = await livingOf(segment);
    const [gone, back] = [living.filter((_, i) => i % 5000 === 17), living.slice(100, 103)];
    await control("/members", { segment_id: segment, remove: [...gone, ...back] });
    await finish(setting, "members");
    expect(await membersIn(setting, KNOWN)).toEqual((await livingOf(segment)).toSorted());
    // A later run, also killed, with one swap that keeps the size.
    await control("/members", { segment_id: segment, remove: living.slice(200, 203), add: back });
    await killed(setting, "members", at);
    await finish(setting, "members");
    expect(await membersIn(setting, KNOWN)).toEqual((await livingOf(segment)).toSorted());
  });
});

describe("a push that is killed", () => {
  // Requests of the second run: three pages, an add, a removal. Commits: the comparison, the add, the removal.
  const kills = [
    { at: "after_receive:2", isInDoubt: false },
    { at: "before_send:4", isInDoubt: false },
    { at: "after_receive:4", isInDoubt: true },
    { at: "before_commit:2", isInDoubt: true },
    { at: "after_commit:2", isInDoubt: false },
    { at: "after_receive:5", isInDoubt: false },
    { at: "after_commit:3", isInDoubt: false },
  ];
  test.each(seededPart(kills, 4))(
    "at $at, adds every person, and removes none in doubt",
    async ({ at, isInDoubt }) => {
      const { setting, segment } = await prepare(`killed push ${at}`, 15_000);
      const pids = await livingOf(segment);
      await setting.query("CREATE SCHEMA crm; CREATE TABLE crm.vip (pid text)");
      const setVips = (list: readonly string[]) =>
        setting.query(
          `TRUNCATE crm.vip; INSERT INTO crm.vip SELECT * FROM json_array_elements_text('${JSON.stringify(list)}')`,
        );
      const pushed = async () => {
        const { segments } = await control<{ segments: { segment_id: string; name: string }[] }>("/segments");
        const found = segments.find(({ name }) => name === `killed push ${at} pushed`);
        return (await livingOf(found?.segment_id ?? "")).toSorted();
      };
      await setVips(pids.slice(0, 12_000));
      await finish(setting, "push");
      await setVips(pids.slice(2000, 15_000));
      await killed(setting, "push", at);
      await finish(setting, "push");
      expect(await pushed()).toEqual(pids.slice(2000, 15_000).toSorted());
      await setVips(pids.slice(14_000));
      await finish(setting, "push");
      expect(await pushed()).toEqual(pids.slice(isInDoubt ? 12_000 : 14_000).toSorted());
    },
  );

  // Requests: the segment is created, its first page read, then 10,000, 10,000 and 5,000 people are added.
  test.each([
    { at: "before_send:4", left: 15_000, calls: 3 + 2 },
    { at: "after_commit:4", left: 5000, calls: 5 + 1 },
    { at: "after_receive:5", left: 0, calls: 6 },
    { at: "before_send:5", left: 5000, calls: 5 + 1 },
  ])("in its first run, at $at, continues with what is left", async ({ at, left, calls }) => {
    const { setting, segment } = await prepare(`killed pass ${at}`, 25_000);
    const pids = await livingOf(segment);
    await setting.query("CREATE SCHEMA crm; CREATE TABLE crm.vip (pid text)");
    await setting.query(
      `INSERT INTO crm.vip SELECT * FROM json_array_elements_text('${JSON.stringify(pids)}'::json)`,
    );
    await killed(setting, "push", at);
    // All pages and an empty one, since the last page is full; then the remaining additions.
    expect(await finish(setting, "push")).toMatchObject({ records_sent: left, requests: calls });
    expect(await finish(setting, "push")).toMatchObject({ records_sent: 0, requests: 1 });
  });
});
