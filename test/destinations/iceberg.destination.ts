import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { openCatalog } from "../../src/publish/iceberg/catalog.ts";
import { cleanTable } from "../../src/publish/iceberg/cleaning.ts";
import { openStorage, openStorageAgent } from "../../src/object-store.ts";
import { openIcebergDestination } from "../../src/publish/iceberg/destination.ts";
import { catalogOf, declaredCatalog, type Destination, withViews } from "../../src/publish/destination.ts";
import { batchAfter, publishRows, stageAll, type TableRows } from "../publish/staged-files.ts";
import { inputViews, queryOf, shownRow, viewResults, viewRows } from "../publish/view-rows.ts";
import { type IcebergContext, openIcebergContext } from "./iceberg-context.ts";
import { queryBySpark } from "./spark.ts";

const AT = "2026-11-21T04:00:00.000001+00:00";
const SECRET = "Quintessence Vandermeer";
const SECRET_PID = "pid-of-the-erased";

const person = (pid: string, fullName: string) => ({
  service_pid: pid,
  full_name: fullName,
  _record_synced_at: AT,
  _synced_at: AT,
  _run_id: "r1",
});

test("views of people have the same rows in Spark", async () => {
  const context = await openIcebergContext();
  onTestFinished(() => context.close());
  const catalog = withViews(declaredCatalog(null), inputViews);
  await context.destination.migrate(catalog);
  const batch = batchAfter(await context.destination.position());
  await publishRows(context.destination, catalog, batch, viewRows);
  const quoted = viewResults.map(([query]) => query.replaceAll('"', "`"));
  const asked = quoted.map((query, index) => [
    index,
    queryOf(query, (view) => `${context.target.namespace}.${view}`),
  ]);
  const found = await queryBySpark(context.judges, Object.fromEntries(asked));
  for (const [index, [query, expected]] of viewResults.entries()) {
    expect([query, (found.get(`${index}`) ?? []).map(shownRow)]).toEqual([query, expected]);
  }
  // Without an input, and with another text.
  const [views] = [catalog.views.filter(({ name }) => name !== "link_orders")];
  const doc = "Another description.";
  await context.destination.migrate({
    ...catalog,
    views: views.map((view) => (view.name === "identity_link" ? { ...view, doc } : view)),
  });
  const rest = openCatalog(context.target);
  onTestFinished(() => rest.close());
  expect(await rest.listViews(context.target.namespace)).not.toContain("link_orders");
  const link = await rest.loadView({ namespace: context.target.namespace, name: "identity_link" });
  expect(link?.metadata.properties?.["comment"]).toBe(doc);
}, 900_000);

describe("Iceberg tables", () => {
  const people = catalogOf(["person", "person_email"]);
  let context: IcebergContext;
  let destination: Destination;

  const publish = async (by: Destination, ...changed: readonly TableRows[]) =>
    publishRows(by, people, batchAfter(await by.position()), changed);
  const names = async () =>
    (await context.ask({ table: context.nameOf("person") })).map((row) => row["full_name"]);
  const publishPerson = (pid: string, fullName: string) =>
    publish(destination, { table: "person", keys: [{ service_pid: pid }], rows: [person(pid, fullName)] });

  beforeAll(async () => {
    context = await openIcebergContext();
    ({ destination } = context);
    await destination.migrate(people);
  });
  afterAll(() => context.close());

  test("have bounds that end between characters, and rows that filters find", async () => {
    const long = "ü".repeat(60);
    const pids = ["é", "漢字", "🎉", `${long}a`, "a".repeat(15) + "é".repeat(20)];
    for (const pid of pids) await publishPerson(pid, `Name of ${pid}`);
    const files = await context.ask({ inspect: context.nameOf("person") });
    expect(files.length).toBeGreaterThan(0);
    for (const pid of pids) {
      const filter = `service_pid = '${pid}'`;
      expect(await context.ask({ table: context.nameOf("person"), filter })).toMatchObject([
        { service_pid: pid },
      ]);
    }
    await publish(destination, { table: "person", replaces: "all", rows: [] });
    expect(await names()).toEqual([]);
  });

  test("hold an erased person in no file after the erasure is finished", async () => {
    await publish(
      destination,
      {
        table: "person",
        keys: [{ service_pid: SECRET_PID }, { service_pid: "p2" }],
        rows: [person(SECRET_PID, SECRET), person("p2", "Bob")],
      },
      {
        table: "person_email",
        keys: [{ service_pid: SECRET_PID }],
        rows: [
          {
            service_pid: SECRET_PID,
            email_type: "personal",
            position: 0,
            email_address: "quint@example.com",
            _synced_at: AT,
            _run_id: "r1",
          },
        ],
      },
    );
    // An attempt that never commits, with the person in it.
    const abandoned = batchAfter(await destination.position());
    await stageAll(destination, people, abandoned, [
      { table: "person", replaces: "all", rows: [person(SECRET_PID, SECRET)] },
    ]);
    await destination.finish();
    const before = await context.objectsWith(SECRET_PID);
    expect(before.map((address) => address.replace(/.*\./u, "")).toSorted()).toEqual([
      "parquet",
      "parquet",
      "parquet",
    ]);
    const batch = { ...abandoned, attempt: "erasure1" };
    const changes = await stageAll(destination, people, batch, [
      { table: "person", keys: [{ service_pid: SECRET_PID }] },
      { table: "person_email", keys: [{ service_pid: SECRET_PID }] },
    ]);
    expect(await destination.commit({ ...batch, changes, erases: true })).toBe("committed");
    expect((await context.objectsWith(SECRET_PID)).length).toBeGreaterThan(0);
    // Killed before the files are deleted, it is finished by the next process.
    await destination.close();
    destination = await context.reopen();
    await destination.finish();
    expect(await context.objectsWith(SECRET_PID)).toEqual([]);
    expect(await names()).toEqual(["Bob"]);
    expect(await context.objectsWith(SECRET)).toEqual([]);
  });

  test("keep the files of former snapshots for a day", async () => {
    await publishPerson("kept", "Before");
    const data = async () =>
      [...(await context.objects()).keys()].filter((address) =>
        /\/person_[0-9a-f]{8}-.*\/data\//u.test(address),
      );
    const former = await data();
    await publishPerson("kept", "After");
    await destination.finish();
    expect(await data()).toEqual(expect.arrayContaining(former));
    // A day later.
    const agent = openStorageAgent();
    const catalog = openCatalog(context.target);
    const [namespace = "", name = ""] = context.nameOf("person").split(".");
    await cleanTable(
      {
        catalog,
        storageOf: (config) => openStorage(context.target, config, agent),
        committed: (await destination.position())?.number ?? 0,
        nowMs: Date.now() + 25 * 3_600_000,
        purges: false,
        removed: { snapshots: 0, files: 0 },
      },
      { namespace, name },
    );
    await catalog.close();
    await agent.close();
    const listed = await context.ask({ inspect: context.nameOf("person") });
    expect((await data()).toSorted()).toEqual(listed.map((file) => String(file["file_path"])).toSorted());
    expect(
      await context.ask({ table: context.nameOf("person"), filter: "service_pid = 'kept'" }),
    ).toMatchObject([{ full_name: "After" }]);
  });

  test("are whole again after --full where somebody deleted a table and files", async () => {
    const agent = openStorageAgent();
    const storage = openStorage(context.target, {}, agent);
    for (const address of (await context.objects()).keys()) {
      if (/\/person_[0-9a-f]{8}-.*\.avro$/u.test(address)) await storage.remove(address);
    }
    await agent.close();
    const catalog = openCatalog(context.target);
    const [namespace = "", name = ""] = context.nameOf("person_email").split(".");
    await catalog.dropTable({ namespace, name });
    await catalog.close();
    const failed = await publishPerson("p2", "Bob").catch((error: unknown) => destination.explain(error));
    expect(failed).toMatchObject({ code: "destination_failed" });
    await destination.restart();
    await destination.migrate(people);
    await publish(
      destination,
      { table: "person", replaces: "all", rows: [person("p2", "Bob")] },
      { table: "person_email", replaces: "all" },
    );
    expect(await names()).toEqual(["Bob"]);
  });

  test("merge small files, so that their number stays bounded", async () => {
    for (let index = 0; index < 24; index += 1) await publishPerson(`m${index}`, `Merged ${index}`);
    const files = await context.ask({ inspect: context.nameOf("person") });
    expect(files.length).toBeLessThan(12);
    expect((await names()).filter((name) => String(name).startsWith("Merged")).length).toBe(24);
    await destination.finish();
  });

  test("take the batch of one of two publishers that commit at once", async () => {
    const other = openIcebergDestination({ ...context.target, folder: `${context.target.folder}-other` });
    try {
      for (let round = 0; round < 8; round += 1) {
        const at = await destination.position();
        const rivals = [
          { by: destination, batch: batchAfter(at), name: `One ${round}` },
          { by: other, batch: batchAfter(at), name: `Two ${round}` },
        ];
        const outcomes = await Promise.all(
          rivals.map(({ by, batch, name }) =>
            publishRows(by, people, batch, [
              { table: "person", keys: [{ service_pid: "rival" }], rows: [person("rival", name)] },
            ]),
          ),
        );
        expect(outcomes.toSorted()).toEqual(["committed", "refused"]);
        const winner = rivals[outcomes.indexOf("committed")];
        expect(await other.position()).toMatchObject({ id: winner?.batch.id });
        const filter = "service_pid = 'rival'";
        expect(await context.ask({ table: context.nameOf("person"), filter })).toMatchObject([
          { full_name: winner?.name },
        ]);
      }
    } finally {
      await other.close();
    }
  });
});
