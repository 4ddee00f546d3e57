import { expect, test } from "vitest";
import { planJobs } from "../../../src/jobs/report/plan.ts";
import { configOf, startWorld, threeJobs } from "../world.ts";
import { startRecordingProxy } from "./recording-proxy.ts";

const customers = configOf(`${threeJobs}
  enrich_some: { type: enrich, input: customers, return_fields: [first_name], max_records_per_run: 20 }`);

test("the requests that a plan shows are those that the service then receives, byte for byte", async () => {
  const world = await startWorld({ rows: 1200, people: 1500, config: customers });
  const proxy = await startRecordingProxy(world.sandbox.url);
  world.serviceUrl = proxy.url;
  const services = await world.services();
  const sizes: Record<string, unknown> = {};
  for (const job of ["resolve_customers", "validate_customers", "enrich_customers", "enrich_some"]) {
    const [plan] = (await planJobs(services, [job], { show: 2, maxRecords: 1050 })).jobs;
    const shown = plan?.requests ?? [];
    sizes[job] = shown.map(({ records }) => records);
    const before = proxy.answers.length;
    await world.run({ jobs: [job], maxRecords: 1050 });
    const received = proxy.answers.slice(before).map(({ path, request }) => [path, request]);
    expect(received).toEqual(
      expect.arrayContaining(shown.map(({ path, body }) => [path, JSON.stringify(body)])),
    );
  }
  expect(sizes).toEqual({
    resolve_customers: [1000, 50],
    validate_customers: [1050],
    enrich_customers: [500, 500],
    enrich_some: [20],
  });
});

test("a plan without --show has no requests, and one of waiting rows an empty list", async () => {
  const world = await startWorld({ rows: 30 });
  const services = await world.services();
  expect((await planJobs(services, [])).jobs.some((job) => "requests" in job)).toBe(false);
  const [waiting] = (await planJobs(services, ["enrich_customers"], { show: 1 })).jobs;
  expect(waiting).toMatchObject({
    requests: [],
    remarks: ["30 rows wait for resolve_customers, which is not part of this plan"],
  });
});

test("a plan counts what --resend and --max-records change", async () => {
  const world = await startWorld({
    rows: 100,
    config: configOf("\n  resolve_customers: { type: resolve, input: customers }"),
  });
  const services = await world.services();
  await world.run();
  const sent = Number(await world.value("SELECT sum(records_sent) FROM person_data_ops.sync_run"));
  expect((await planJobs(services, [], { resend: true })).jobs).toMatchObject([
    { due_reasons: { resend: sent }, records_to_send: sent, records_remaining: 0, limited_by: null },
  ]);
  expect((await planJobs(services, [], { resend: true, maxRecords: 10, show: 1 })).jobs).toMatchObject([
    {
      records_to_send: 10,
      records_remaining: sent - 10,
      limited_by: "max_records",
      requests: [{ records: 10 }],
    },
  ]);
  // A plan marks nothing.
  expect((await planJobs(services, [])).jobs).toMatchObject([{ records_due: 0 }]);
});
