import { expect, test } from "vitest";
import { configOf, jobOf, startWorld } from "../world.ts";
import { NURSES, storedMembers } from "./audience-world.ts";
import { eraseByPid } from "./erase-by-pid.ts";

const config = (unlock: string) =>
  configOf(`
  deaths: { type: death_signals, segments: [{ job: audiences, search: nurses }] }
  members: { type: segment_members, segments: [{ job: audiences, search: nurses }] }
  people: { type: enrich, input: nurses }
  audiences: { type: audience_search, searches: { nurses: { query: ${NURSES}, unlock: ${unlock} } } }`).replace(
    "inputs:",
    "inputs:\n  nurses: { job: audiences, search: nurses }",
  );

test("the members of an audience are enriched by PID, and its segment is read, after it was unlocked", async () => {
  const world = await startWorld({ rows: 0, people: 20_000, config: config("{ max_billable: 500 }") });
  const report = await world.run();
  expect(report.jobs.map(({ job, status }) => [job, status])).toEqual([
    ["audiences", "succeeded"],
    ["deaths", "succeeded"],
    ["members", "succeeded"],
    ["people", "succeeded"],
  ]);
  const members = await storedMembers(world);
  expect(jobOf(report, "people")).toMatchObject({
    records_read: members.length,
    records_sent: members.length,
    records_matched: members.length,
  });
  const pids = "SELECT string_agg(service_pid, ' ' ORDER BY service_pid COLLATE \"C\") FROM person_data";
  expect(await world.value(`${pids}.person`)).toBe(members.toSorted().join(" "));
  expect(await world.value(`${pids}.segment_member WHERE is_member`)).toBe(members.toSorted().join(" "));
  expect(await world.value("SELECT string_agg(name, ',') FROM person_data.segment")).toBe("nurses");

  await eraseByPid(world, members[0] ?? "");
  const again = await world.run({ fullRefresh: true, resend: true, yes: true });
  expect(again.status).toBe("succeeded");
  expect(await world.value(`${pids}.person`)).toBe(members.slice(1).toSorted().join(" "));
  expect(await storedMembers(world)).toEqual(members.slice(1));
});

test("an audience that isn't unlocked has no members to enrich, and its segment is not known", async () => {
  const world = await startWorld({ rows: 0, people: 20_000, config: config("never") });
  const report = await world.run();
  expect(jobOf(report, "people")).toMatchObject({ status: "succeeded", records_read: 0 });
  expect(jobOf(report, "members")).toMatchObject({
    status: "failed",
    error: {
      code: "segment_unknown",
      message:
        "members: audiences has not unlocked the audience nurses yet; allow it by `unlock` and run it first.",
    },
  });
});
