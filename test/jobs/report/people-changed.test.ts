import { expect, test } from "vitest";
import { peopleChangedText } from "../../../src/jobs/report/people-changed.ts";
import { readChangeOfRun } from "../../../src/load/history/queries.ts";
import { configOf, enrichOnly, startWorld, type World } from "../world.ts";

/** Content of a list of each person, by PID. */
async function contents(world: World, table: string): Promise<ReadonlyMap<string, string>> {
  const rows =
    await world.rows(`SELECT service_pid AS pid, jsonb_agg(to_jsonb(t) - '{_synced_at,_run_id}'::text[]
    ORDER BY position)::text AS content FROM person_data.${table} AS t GROUP BY 1`);
  return new Map(rows.map(({ pid, content }) => [pid ?? "", content ?? ""]));
}

/** PIDs whose content differs. */
function changesOf(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>) {
  return [...after.keys()].filter((pid) => before.has(pid) && before.get(pid) !== after.get(pid));
}

const events = ({ logged }: World) =>
  logged.filter(({ event }) => event === "people_changed").map(({ fields }) => fields);

test("a run reports how many people it changed, and in which fields; a run without changes reports nothing", async () => {
  const world = await startWorld({ rows: 150, config: configOf(enrichOnly) });
  expect(await world.run()).not.toHaveProperty("people_changed");
  const [jobs, addresses] = [
    await contents(world, "person_work_experience"),
    await contents(world, "person_address"),
  ];
  await world.control("/clock", { days: 700 });
  const { people_changed: changed } = await world.run({ runId: "later", resend: true, yes: true });
  const changedJobs = changesOf(jobs, await contents(world, "person_work_experience"));
  const changedAddresses = changesOf(addresses, await contents(world, "person_address"));
  expect(changedJobs.length).toBeGreaterThan(10);
  expect(changedAddresses.length).toBeGreaterThan(5);
  expect(changed?.by_field_group).toMatchObject({
    work_experience: changedJobs.length,
    address_history: changedAddresses.length,
  });
  const people = await world.value("SELECT count(DISTINCT service_pid) FROM person_data.person_history");
  expect(changed?.people).toBe(Number(people));
  expect(changed && peopleChangedText(changed)).toMatch(
    new RegExp(
      `^${people} people changed: ${changedJobs.length} jobs, ${changedAddresses.length} addresses, `,
    ),
  );
  expect(events(world)).toEqual([changed]);
  const { db } = world.warehouse;
  expect(await readChangeOfRun(db, "later")).toEqual({ run_id: "later", ...changed });
  expect(await readChangeOfRun(db, "other")).toBeNull();

  expect(await world.run()).not.toHaveProperty("people_changed");
  expect(await world.run({ resend: true, yes: true })).not.toHaveProperty("people_changed");
  expect(events(world)).toHaveLength(1);

  world.configure(configOf(enrichOnly, "history: { people: false }"));
  await world.control("/clock", { days: 700 });
  expect(await world.run({ resend: true, yes: true })).not.toHaveProperty("people_changed");
});
