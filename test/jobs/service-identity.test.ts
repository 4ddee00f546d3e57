import { describe, expect, onTestFinished, test } from "vitest";
import { readMark } from "../../src/extract/sandbox-mark.ts";
import { recordOrganization } from "../../src/load/db/identity.ts";
import { checkIdentity } from "../../src/jobs/service-identity.ts";
import { forward, startServer } from "../support/http-proxy.ts";
import { configOf, requestsOf, resolveOnly, startWorld } from "./world.ts";

const config = configOf(resolveOnly);
const SENT = "SELECT count(*) FROM person_data_ops.api_call";
/** Every call for the usage report is cut off without a response. */
const SILENT = { fault: "reply_lost", rate: 1, endpoint: "usage" } as const;
const KNOWN = "SELECT org_id FROM person_data_ops.warehouse_identity";

test("a key of another organization than the warehouse was filled for ends the run before anything is sent", async () => {
  const world = await startWorld({ rows: 20, config });
  await world.run({ runId: "first" });
  expect(await world.value(KNOWN)).toMatch(/^[0-9a-f-]{36}$/);
  const sent = await world.value(SENT);
  expect(Number(sent)).toBeGreaterThan(0);
  await world.rows("UPDATE crm.customers SET last_name = 'Changed'");
  await world.rows("UPDATE person_data_ops.warehouse_identity SET org_id = 'another-one'");
  await expect(checkIdentity(await world.services())).rejects.toMatchObject({ code: "another_organization" });
  await expect(world.run({ runId: "second" })).rejects.toMatchObject({
    name: "FixConfigurationError",
    code: "another_organization",
    problems: [
      {
        path: "service.api_key",
        hint: "Use another warehouse or other schemas",
      },
    ],
  });
  expect(await world.value(SENT)).toBe(sent);
});

test("of two processes with keys of different organizations, the second to record one gets the first", async () => {
  const { warehouse } = await startWorld({ rows: 0, config });
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
    config,
    faults: [{ fault: "forbidden", rate: 1, endpoint: "usage" }],
  });
  expect(await world.run()).toMatchObject({ status: "succeeded" });
  expect(await world.value(KNOWN)).toBeNull();
});

/** Starts a server that passes calls on, and marks its responses with a text; null for no mark. */
async function startMarking(origin: string, given: () => string | null): Promise<string> {
  const { url, close } = await startServer(async (request, response, asked) => {
    const mark = given();
    const { status, headers, body } = await forward(origin, request, asked);
    const { "person-etl-sandbox": _mark, ...others } = headers;
    response
      .writeHead(status, { ...others, ...(mark === null ? {} : { "person-etl-sandbox": mark }) })
      .end(body);
  });
  onTestFinished(close);
  return url;
}

/** World whose only run filled the warehouse; recorded as if by another service. */
async function startFilled(serviceHost: string, organization: string | null = "another") {
  const world = await startWorld({ rows: 5, config });
  await world.run();
  const { host } = new URL(world.serviceUrl);
  const known = serviceHost.replace("HOST", host);
  const columns =
    organization === "same" ? "" : `, org_id = ${organization === null ? "NULL" : `'${organization}'`}`;
  await world.rows(`UPDATE person_data_ops.warehouse_identity SET service_host = '${known}'${columns}`);
  return { world, host, sent: await requestsOf(world) };
}

describe("invented people and real ones never mix", () => {
  const HOST = "SELECT service_host FROM person_data_ops.warehouse_identity";
  test("a sandbox that runs alone is recorded as one, and another address is refused with both ways out", async () => {
    const world = await startWorld({ rows: 5, config });
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
    const { world, host, sent } = await startFilled("HOST");
    const refused = {
      code: "another_service",
      message: `The warehouse belongs to ${host}, but service.base_url is sandbox:7@${host}.`,
      problems: [{ hint: expect.stringMatching(/invented people never get into the tables of real ones$/) }],
    };
    await expect(world.run()).rejects.toMatchObject(refused);
    expect(await requestsOf(world)).toBe(sent + 1);
    await expect(checkIdentity(await world.services())).rejects.toMatchObject(refused);
  });

  test.each([
    ["sandbox:8@HOST", 1],
    ["api.example.com:443", 0],
    ["sandbox:7", 0],
  ])("the warehouse of %s is refused after %i free calls, before anything is sent", async (known, calls) => {
    const { world, sent } = await startFilled(known);
    await expect(world.run()).rejects.toMatchObject({ code: "another_service" });
    expect(await requestsOf(world)).toBe(sent + calls);
  });

  test.each(["same", null])(
    "the warehouse of a sandbox that was recorded by its address becomes a trial (organization: %s)",
    async (organization) => {
      const { world, host } = await startFilled("HOST", organization);
      await checkIdentity(await world.services());
      expect(await world.value(HOST)).toBe(host);
      expect(await world.run()).toMatchObject({ status: "succeeded" });
      expect(await world.value(HOST)).toBe(`sandbox:7@${host}`);
      expect(world.logged).toContainEqual(
        expect.objectContaining({ level: "warn", event: "trial_recognized" }),
      );
    },
  );

  test("a service and an organization that nothing came from are replaced", async () => {
    const world = await startWorld({ rows: 5, config });
    const { host } = new URL(world.serviceUrl);
    await world.warehouse.recordServiceHost("mistyped.example:443");
    await checkIdentity(await world.services());
    expect(await world.run({ jobs: [], maxRecords: 0 })).toMatchObject({ status: expect.any(String) });
    expect(await world.value(HOST)).toBe(`sandbox:7@${host}`);
    await world.rows("UPDATE person_data_ops.warehouse_identity SET org_id = 'mistyped'");
    expect(await world.run()).toMatchObject({ status: "succeeded" });
    expect(await world.value(KNOWN)).toMatch(/^[0-9a-f-]{36}$/);
  });

  test("a service that may have billed is not replaced", async () => {
    const { world } = await startFilled("billing.example:443", null);
    await world.rows("TRUNCATE person_data.person, person_data.resolution CASCADE");
    await world.rows("UPDATE person_data_ops.api_call SET http_status = NULL, possibly_billed = true");
    await expect(world.run()).rejects.toMatchObject({ code: "another_service" });
    await world.rows("UPDATE person_data_ops.api_call SET possibly_billed = false");
    expect(await world.run()).toMatchObject({ status: "succeeded" });
  });

  test("a service that says nothing of a sandbox is recorded by its address, until it begins to, also in a process that stays", async () => {
    const world = await startWorld({ rows: 5, config });
    let mark: string | null = null;
    world.serviceUrl = await startMarking(world.serviceUrl, () => mark);
    const { host } = new URL(world.serviceUrl);
    const { http } = await world.services();
    expect(await world.run({}, { http })).toMatchObject({ status: "succeeded" });
    expect(await world.value(HOST)).toBe(host);
    await world.rows("UPDATE crm.customers SET last_name = 'Changed'");
    mark = "7";
    expect(await world.run({}, { http })).toMatchObject({ status: "succeeded" });
    expect(await world.value(HOST)).toBe(`sandbox:7@${host}`);
  });

  test("a silent service gets nothing while it may be another after a trial, and 25 s to respond", async () => {
    const world = await startWorld({ rows: 5, config, faults: [SILENT] });
    const address = new URL(world.serviceUrl).host;
    await expect(world.run()).rejects.toMatchObject({ code: "service_unreachable" });
    expect(await world.rows(HOST)).toEqual([]);
    const asked = await requestsOf(world);
    expect(asked).toBeGreaterThan(5);
    await world.warehouse.recordServiceHost(`sandbox:7@${address}`);
    await expect(world.run()).rejects.toMatchObject({ code: "service_unreachable" });
    expect(await requestsOf(world)).toBeGreaterThan(asked + 5);
    expect(await world.value(SENT)).toBe("0");
  });

  test("a later run of a real service asks once, and stores nothing of a sandbox, but counts what it may have billed", async () => {
    const world = await startWorld({ rows: 5, config, faults: [SILENT] });
    await world.warehouse.recordServiceHost(new URL(world.serviceUrl).host);
    const report = await world.run();
    expect(report.jobs).toMatchObject([{ status: "failed", error: { code: "another_service" } }]);
    expect(await world.value("SELECT count(*) FROM person_data.resolution WHERE is_match")).toBe("0");
    expect(
      await world.rows(
        "SELECT is_sent, http_status, records_sent, records_in_doubt FROM person_data_ops.api_call",
      ),
    ).toEqual([{ is_sent: "t", http_status: "200", records_sent: "4", records_in_doubt: "4" }]);
    expect(await requestsOf(world)).toBe(2);
  });

  test("a mark that is no seed is refused, and never shown", async () => {
    const world = await startWorld({ rows: 5, config });
    world.serviceUrl = await startMarking(world.serviceUrl, () => "secret-4711");
    const error = await world.run().catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: "another_service",
      message: expect.stringContaining("its header person-etl-sandbox is not a seed"),
    });
    expect(JSON.stringify(error)).not.toContain("4711");
    expect(await world.rows(HOST)).toEqual([]);
  });
});

test.each([
  [undefined, null],
  ["7", "7"],
  ["7, 8", "7"],
  [["7", "8"], "7"],
  ["", "unknown"],
  ["12345678901", "unknown"],
  ["7 8", "unknown"],
])("the mark %o is read as %o", (value, mark) => {
  expect(readMark(value)).toBe(mark);
});
