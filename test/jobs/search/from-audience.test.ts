import { expect, test } from "vitest";
import { exitCodeOf } from "../../../src/jobs/job.ts";
import { configOf, erase, jobOf, startWorld } from "../world.ts";
import { ageSearches, NURSES, storedMembers } from "./audience-world.ts";

const config = (unlock: string) =>
  configOf(`
  deaths: { type: death_signals, segments: [{ job: audiences, search: nurses }] }
  members: { type: segment_members, segments: [{ job: audiences, search: nurses }] }
  people: { type: enrich, input: nurses }
  audiences: { type: audience_search, searches: { nurses: { query: ${NURSES}, unlock: ${unlock} } } }`).replace(
    "inputs:",
    "inputs:\n  nurses: { job: audiences, search: nurses }",
  );

test("the members of an audience are enriched by PID, and its segment is read, after it was unlocked and not before", async () => {
  const world = await startWorld({ rows: 0, people: 20_000, config: config("never") });
  const locked = await world.run();
  expect(jobOf(locked, "people")).toMatchObject({ status: "succeeded", records_read: 0 });
  expect(jobOf(locked, "members")).toMatchObject({
    status: "failed",
    error: {
      code: "segment_unknown",
      message:
        "members: audiences has not unlocked the audience nurses yet; set its `unlock` and run it first.",
    },
  });
  world.configure(config("{ max_billable: 500 }"));
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

  await erase(world, { pids: members.slice(0, 1) });
  const again = await world.run({ fullRefresh: true, resend: true, yes: true });
  expect(again.status).toBe("succeeded");
  expect(await world.value(`${pids}.person`)).toBe(members.slice(1).toSorted().join(" "));
  expect(await storedMembers(world)).toEqual(members.slice(1));
});

test("an audience stays in use while a new one is made, and jobs that need its first one skip it", async () => {
  const text = config("{ max_billable: 500 }").replace(
    "audience_search, ",
    "audience_search, refresh_after: 1d, deadline: 10s, ",
  );
  const world = await startWorld({ rows: 0, people: 20_000, config: text });
  const slow = { states: Array<string>(15).fill("querying"), state_ms: null };
  await world.control("/search_plan", slow);
  const first = await world.run();
  expect(first.jobs.map(({ job, status }) => [job, status])).toEqual([
    ["audiences", "limited"],
    ["deaths", "limited"],
    ["members", "limited"],
    ["people", "succeeded"],
  ]);
  expect(exitCodeOf(first, null)).toBe(0);
  expect(world.notes).toContain("audiences has not stored the audience nurses yet; skipped");
  await world.control("/search_plan", {});
  while (jobOf(await world.run({ jobs: ["audiences"] }), "audiences").status === "limited");
  const [stored] = await world.rows(
    "SELECT segment_id FROM person_data.audience_search WHERE members_stored_at IS NOT NULL",
  );
  await ageSearches(world);
  await world.control("/search_plan", slow);
  const again = await world.run({ resend: true, yes: true });
  expect(jobOf(again, "audiences")).toMatchObject({ status: "limited", limited_by: "deadline" });
  expect(await world.value("SELECT count(*) FROM person_data.audience_search")).toBe("2");
  expect(await world.rows("SELECT segment_id FROM person_data.segment")).toEqual([stored]);
  const members = await storedMembers(world);
  expect(members.length).toBeGreaterThan(5);
  expect(jobOf(again, "people")).toMatchObject({ records_read: members.length });
});
