import { expect, test } from "vitest";
import { planJobs } from "../../../src/jobs/report/plan.ts";
import { configOf, startWorld, type World } from "../world.ts";
import { NURSES } from "./audience-world.ts";

const jobs = (unlock: string) =>
  configOf(`
  prospects: { type: person_search, searches: { cfos: { query: CFOs }, nurses: { query: ${NURSES} } } }
  audiences: { type: audience_search, searches: { nurses: { query: ${NURSES}, unlock: ${unlock} } } }
  contacts: { type: contact_jobs, job_ids: [123e4567-e89b-42d3-a456-426614174000], unlock: { max_billable: 30 } }`);

async function planOf(world: World) {
  const { jobs: plans } = await planJobs(await world.services(), []);
  return plans.map(
    ({ job, records_read, records_due, calls, estimated_billable: { low, expected, high } }) => [
      job,
      records_read,
      records_due,
      calls,
      [low, expected, high],
    ],
  );
}

test("a plan counts searches and contact jobs that are due, and the most that their unlocks can bill", async () => {
  const world = await startWorld({ rows: 0, people: 20_000, config: jobs("{ max_billable: 5 }") });
  expect(await planOf(world)).toEqual([
    ["prospects", 2, 2, 3, [0, 0, 0]],
    ["audiences", 1, 1, 2, [0, 0, 5]],
    ["contacts", 1, 1, 1, [0, 0, 30]],
  ]);
  const { jobs: plans } = await planJobs(await world.services(), []);
  expect(JSON.stringify(plans.slice(1))).not.toContain("free");
  await world.run({ jobs: ["prospects", "audiences"] });
  // The audience turned out to be larger than its ceiling.
  expect((await planOf(world)).slice(0, 2)).toEqual([
    ["prospects", 2, 0, 0, [0, 0, 0]],
    ["audiences", 1, 1, 1, [0, 0, 0]],
  ]);
  world.configure(jobs("{ max_billable: 5000 }"));
  const size = Number(await world.value("SELECT total_count FROM person_data.audience_search"));
  expect((await planOf(world))[1]).toEqual(["audiences", 1, 1, 1, [0, size, size]]);
  await world.run({ jobs: ["audiences"] });
  expect((await planOf(world))[1]).toEqual(["audiences", 1, 0, 0, [0, 0, 0]]);
});
