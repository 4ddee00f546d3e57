import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { openBigQueryDestination } from "../../src/publish/bigquery/destination.ts";
import { declaredCatalog } from "../../src/publish/destination.ts";
import { openRequestDoor } from "../support/bigquery/request-door.ts";
import { unusedPort } from "../support/unused-port.ts";
import { batchAfter, publishRows } from "../publish/staged-files.ts";
import { type BigQueryDestinationContext, openBigQueryContext } from "./bigquery-context.ts";

const catalog = declaredCatalog(null);
let context: BigQueryDestinationContext;
beforeEach(async () => {
  context = await openBigQueryContext();
});
afterEach(() => context.close());

const AT = "2026-11-21T04:00:00Z";
const person = { service_pid: "p1", _record_synced_at: AT, _synced_at: AT, _run_id: "r" };

test("an empty project passes, and nothing is created by checking", async () => {
  const findings = await context.destination.check(catalog);
  expect(findings.map(({ ok }) => ok)).toEqual([true, true, true]);
  expect(findings[0]?.message).toBe(
    `Dataset ${context.target.dataset} doesn't exist yet; the first publication creates it.`,
  );
  const path = `/datasets/${context.target.dataset}`;
  await expect(context.datasets.client.send({ method: "GET", path })).rejects.toMatchObject({
    code: "notFound",
  });
});

test("after a publication it states rights, DML and cost", async () => {
  await context.destination.migrate(catalog);
  const changed = [{ table: "person", keys: [{ service_pid: "p1" }], rows: [person] }];
  await publishRows(context.destination, catalog, batchAfter(null), changed);
  const findings = await context.destination.check(catalog);
  expect(findings.filter(({ ok }) => !ok)).toEqual([]);
  expect(findings.map(({ message }) => message)).toContain("This account may write to the tables.");
  expect(findings.at(-1)?.message).toMatch(
    /^A publication of up to 20 million changed keys bills about 50 MB \(US\$ 0\.00 at list price\) if only fields of `person` change, and (1\.\d GB) \(US\$ 0\.01 at list price\) if every table changes now\. It may bill [45]\.\d GB\.$/,
  );
});

test.each([{ defaultTableExpirationMs: "86400000" }, { defaultPartitionExpirationMs: "86400000" }])(
  "a dataset with a default expiration is refused (%o)",
  async (options) => {
    await context.datasets.create(context.target.opsDataset, options);
    const [, finding] = await context.destination.check(catalog);
    expect(finding).toMatchObject({
      ok: false,
      message: expect.stringContaining("has a default expiration"),
      hint: expect.stringContaining("SET OPTIONS (default_table_expiration_days = NULL"),
    });
  },
);

test("a dataset in another location than the configured one is refused", async () => {
  await context.datasets.create(context.target.dataset);
  const elsewhere = openBigQueryDestination({ ...context.target, location: "US" });
  const [finding] = await elsewhere.check(catalog);
  expect(finding).toMatchObject({
    ok: false,
    message: `Dataset ${context.target.dataset} is in europe-west3, but publish.analytics.location is US.`,
    hint: expect.stringContaining("Set publish.analytics.location: europe-west3"),
  });
});

test.each(["stagingDataset", "opsDataset"] as const)(
  "a %s in another location is found before anything is created or paid for",
  async (which) => {
    const own = `${context.target.dataset}_${which.toLowerCase()}`;
    await context.datasets.create(own, { location: "US" });
    onTestFinished(async () => {
      await context.datasets.client.send({ method: "DELETE", path: `/datasets/${own}` });
    });
    await context.datasets.create(context.target.dataset);
    const door = await openRequestDoor(context.target.apiEndpoint ?? "");
    const elsewhere = openBigQueryDestination({ ...context.target, [which]: own, apiEndpoint: door.url });
    const message = `Dataset ${own} is in US, but dataset ${context.target.dataset} is in europe-west3.`;
    const findings = await elsewhere.check(catalog);
    expect(findings.filter(({ ok }) => !ok)).toMatchObject([
      { message, hint: expect.stringContaining("datasets can't be moved") },
    ]);
    const checked = door.seen.length;
    const error = await elsewhere.position().catch((e: unknown) => e);
    expect(error).toMatchObject({ name: "FixConfigurationError", code: "database_refused", message });
    expect(door.seen.slice(checked).filter((text) => !text.startsWith("GET "))).toEqual([]);
  },
);

test("new datasets are created where an existing one is", async () => {
  const { dataset, opsDataset } = context.target;
  await context.datasets.create(opsDataset, { location: "US" });
  await context.destination.migrate(catalog);
  const path = `/datasets/${dataset}`;
  expect(await context.datasets.client.send<object>({ method: "GET", path })).toMatchObject({
    location: "US",
  });
});

test("a project that can't be reached is one finding", async () => {
  const apiEndpoint = `http://127.0.0.1:${await unusedPort()}`;
  const gone = openBigQueryDestination({ ...context.target, apiEndpoint });
  expect(await gone.check(catalog)).toMatchObject([
    { ok: false, message: expect.stringContaining("Run again later") },
  ]);
});

test("credentials that don't exist are one finding, with the way to get some", async () => {
  const credentialsFile = "/nowhere/key.json";
  const nobody = openBigQueryDestination({ ...context.target, apiEndpoint: null, credentialsFile });
  expect(await nobody.check(catalog)).toMatchObject([
    { ok: false, hint: expect.stringContaining("gcloud auth application-default login") },
  ]);
});
