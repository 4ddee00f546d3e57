import { beforeAll, describe, expect, test } from "vitest";
import type { Setting } from "../cli/support/setting.ts";
import { livingAt, segmentNamed } from "../support/sandbox-control.ts";
import { partOf } from "../support/test-size.ts";
import { killRun, runToEnd, startFeedService } from "./kill-support.ts";

/** Twelve pages of 5,000, each with its own commit. */
const MEMBERS = 58_000;

const jobsOf = (segment: string, name: string) => `jobs:
  members: { type: segment_members, segments: [{ id: ${segment} }] }
  push: { type: segment_push, name: "${name}", mode: mirror, max_remove_ratio: 1, sql: "select pid as service_pid from crm.vip" }
`;

let service: Awaited<ReturnType<typeof startFeedService>>;
beforeAll(async () => {
  service = await startFeedService(70_000);
});

const livingOf = (segment: string) => livingAt(service.url, segment);

async function prepare(name: string, size = MEMBERS): Promise<{ setting: Setting; segment: string }> {
  const segment = { name, members: size, batch: 7000, at: "2026-10-01T00:00:00Z" };
  const { segment_id: id } = await service.control<{ segment_id: string }>("/segments", segment);
  return { setting: await service.prepare(jobsOf(id, `${name} pushed`)), segment: id };
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
  test.each(partOf(kills, 4))("at %s, are exact after the next run", async (at) => {
    const { setting, segment } = await prepare(`killed first ${at}`);
    await killRun(setting, at, "members");
    const living = await livingOf(segment);
    const [gone, back] = [living.filter((_, i) => i % 5000 === 17), living.slice(100, 103)];
    await service.control("/members", { segment_id: segment, remove: [...gone, ...back] });
    await runToEnd(setting, "members");
    expect(await membersIn(setting, KNOWN)).toEqual((await livingOf(segment)).toSorted());
    // A later run, also killed, with one swap that keeps the size.
    await service.control("/members", { segment_id: segment, remove: living.slice(200, 203), add: back });
    await killRun(setting, at, "members");
    await runToEnd(setting, "members");
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
  test.each(partOf(kills, 4))(
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
        return (await livingOf(await segmentNamed(service.url, `killed push ${at} pushed`))).toSorted();
      };
      await setVips(pids.slice(0, 12_000));
      await runToEnd(setting, "push");
      await setVips(pids.slice(2000, 15_000));
      await killRun(setting, at, "push");
      await runToEnd(setting, "push");
      expect(await pushed()).toEqual(pids.slice(2000, 15_000).toSorted());
      await setVips(pids.slice(14_000));
      await runToEnd(setting, "push");
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
    await killRun(setting, at, "push");
    // All pages and an empty one, since the last page is full; then the remaining additions.
    expect(await runToEnd(setting, "push")).toMatchObject([{ records_sent: left, requests: calls }]);
    expect(await runToEnd(setting, "push")).toMatchObject([{ records_sent: 0, requests: 1 }]);
  });
});
