import { expect, test } from "vitest";
import { recordOrganization } from "../../src/load/db/identity.ts";
import { configOf, startWorld } from "./world.ts";

const RESOLVE = "\n  resolve_customers: { type: resolve, input: customers }";
const SENT = "SELECT count(*) FROM person_data_ops.api_call";
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
  await warehouse.writeServiceHost("service.example", { replace: false });
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
