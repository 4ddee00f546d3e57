import { describe, expect, test } from "vitest";
import { recordOrganization } from "../../src/load/db/identity.ts";
import { configOf, startWorld, type World } from "./world.ts";

const RESOLVE = "\n  resolve_customers: { type: resolve, input: customers }";
const SENT = "SELECT count(*) FROM person_data_ops.api_call";
/** Every call for the usage report is cut off without a response. */
const SILENT = { fault: "reply_lost", rate: 1, endpoint: "usage" } as const;
const KNOWN = "SELECT org_id FROM person_data_ops.warehouse_identity";

test("a key of another organization than the warehouse was filled for ends the run before anything is sent", async () => {
  const world = await startWorld({ rows: 20, config: configOf(RESOLVE) });
  await world.run({ runId: "first" });
  expect(await world.value(KNOWN)).toMatch(/^[0-9a-f-]{36}$/);
  const sent = await world.value(SENT);
  expect(Number(sent)).toBeGreaterThan(0);
  await world.rows("UPDATE crm.customers SET last_name = 'Changed'");
  await world.rows("UPDATE person_data_ops.warehouse_identity SET org_id = 'another-one'");
  await expect(world.run({ runId: "second" })).rejects.toMatchObject({
    name: "FixConfigurationError",
    code: "another_organization",
    problems: [
      {
        path: "service.api_key",
        hint: expect.stringMatching(/run person-etl migrate --accept-service 127\.0\.0\.1:\d+$/),
      },
    ],
  });
  expect(await world.value(SENT)).toBe(sent);
});

test("of two processes with keys of different organizations, the second to record one gets the first", async () => {
  const { warehouse } = await startWorld({ rows: 0, config: configOf(RESOLVE) });
  await warehouse.recordServiceHost("service.example");
  const recorded = await Promise.all(
    ["org-1", "org-2"].map((organization) => recordOrganization(warehouse.db, "run", organization)),
  );
  expect(recorded[0]).toMatch(/^org-[12]$/);
  expect(recorded[1]).toBe(recorded[0]);
  expect((await warehouse.readIdentity())?.organization).toBe(recorded[0]);
});

test("a service that doesn't report the organization is used anyway", async () => {
  const world = await startWorld({
    rows: 20,
    config: configOf(RESOLVE),
    faults: [{ fault: "forbidden", rate: 1, endpoint: "usage" }],
  });
  expect(await world.run()).toMatchObject({ status: "succeeded" });
  expect(await world.value(KNOWN)).toBeNull();
});

const requestsOf = async (world: World) =>
  (await world.control<{ readonly requests: number }>("/ledger")).requests;

describe("invented people and real ones never mix", () => {
  const HOST = "SELECT service_host FROM person_data_ops.warehouse_identity";
  test("a sandbox that runs alone is recorded as one, and another address is refused with both ways out", async () => {
    const world = await startWorld({ rows: 5, config: configOf(RESOLVE) });
    await world.run();
    const { host, port } = new URL(world.serviceUrl);
    expect(await world.value(HOST)).toBe(`sandbox:7@${host}`);
    expect(await world.run()).toMatchObject({ status: "succeeded" });
    world.serviceUrl = `http://localhost:${port}`;
    await expect(world.run()).rejects.toMatchObject({
      code: "another_service",
      message: `The warehouse contains a trial with invented people (sandbox:7@${host}), but service.base_url is localhost:${port}.`,
      problems: [
        {
          path: "service.base_url",
          hint:
            "Set other names for warehouse.schema, ops_schema and state_schema, or remove the trial: person-etl drop --trial. " +
            "See docs/from-sandbox.md",
        },
      ],
    });
  });

  test("a sandbox at the address of the service that filled the warehouse is refused before anything is sent", async () => {
    const world = await startWorld({ rows: 5, config: configOf(RESOLVE) });
    await world.warehouse.recordServiceHost(new URL(world.serviceUrl).host);
    await expect(world.run()).rejects.toMatchObject({
      code: "another_service",
      problems: [{ hint: expect.stringMatching(/invented people never get into the tables of real ones$/) }],
    });
    expect(await requestsOf(world)).toBe(1);
  });

  test.each([
    ["sandbox:8@HOST", 1],
    ["api.example.com:443", 0],
    ["sandbox:7", 0],
  ])("the warehouse of %s is refused after %i free calls, before anything is sent", async (known, calls) => {
    const world = await startWorld({ rows: 5, config: configOf(RESOLVE) });
    await world.warehouse.recordServiceHost(known.replace("HOST", new URL(world.serviceUrl).host));
    await expect(world.run()).rejects.toMatchObject({ code: "another_service" });
    expect(await requestsOf(world)).toBe(calls);
  });

  test("while the service is silent, the first run of a warehouse sends nothing, and a later one stores nothing of another", async () => {
    const world = await startWorld({ rows: 5, config: configOf(RESOLVE), faults: [SILENT] });
    await expect(world.run()).rejects.toMatchObject({ code: "service_unreachable" });
    expect(await world.rows(HOST)).toEqual([]);
    await world.warehouse.recordServiceHost(new URL(world.serviceUrl).host);
    const report = await world.run();
    expect(report.jobs).toMatchObject([{ status: "failed", error: { code: "another_service" } }]);
    expect(await world.value("SELECT count(*) FROM person_data.resolution WHERE is_match")).toBe("0");
  });

  test("a service that says nothing of a sandbox is recorded by its address", async () => {
    const world = await startWorld({ rows: 5, config: configOf(RESOLVE) });
    const services = await world.services();
    const { http } = services;
    const plain = {
      ...http,
      request: async (call: Parameters<typeof http.request>[0]) => {
        const { sandboxSeed: _seed, ...reply } = { sandboxSeed: "", ...(await http.request(call)) };
        return reply;
      },
      expectSandbox() {},
    };
    expect(await world.run({}, { http: plain })).toMatchObject({ status: "succeeded" });
    expect(await world.value(HOST)).toBe(new URL(world.serviceUrl).host);
  });
});
