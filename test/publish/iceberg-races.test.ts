import { readdir, rename, rm } from "node:fs/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { catalogOf } from "../../src/publish/destination.ts";
import { openCatalog } from "../../src/publish/iceberg/catalog.ts";
import { cleanTable } from "../../src/publish/iceberg/cleaning.ts";
import { currentSnapshot, newSnapshot, readSnapshot } from "../../src/publish/iceberg/tables.ts";
import { age, change, DAY_MS, openIcebergFolder, people, person } from "./iceberg-folder.ts";
import { batchAfter, publishRows, stageAll } from "./staged-files.ts";

// Other hosts, stalls, restored catalogs and wrong clocks: no file of the current snapshot is lost, and no erased person stays.

test("a batch that was committed although its conflict was reported keeps its files", async () => {
  const { catalog, publish, names, destination } = await openIcebergFolder();
  await publish(change({ p1: "Ann" }));
  // A proxy repeated the request, and a replica answers the first read.
  catalog.commits.push((apply) => {
    catalog.reads.push(apply);
    return 409;
  });
  expect(await publish(change({ p1: "Bob" }))).toBe("present");
  expect(await names()).toEqual(["Bob"]);
  await destination.finish();
  expect(await names()).toEqual(["Bob"]);
});

test("a commit that another host has followed is no fault of the catalog", async () => {
  const { catalog, publish } = await openIcebergFolder();
  await publish(change({ p1: "Ann" }));
  catalog.commits.push((apply) => {
    apply();
    const at = catalog.tables.get("ops.publication_position");
    if (at) at.properties = { ...at.properties, "person-etl.number": "3", "person-etl.id": "of-another" };
    return 204;
  });
  expect(await publish(change({ p1: "Bob" }))).toBe("refused");
});

test("a cleaning that stalls deletes no file of a batch that was committed meanwhile", async () => {
  const { catalog, target, destination, storage, openRival, publish, erase, names } =
    await openIcebergFolder();
  await publish(change({ p1: "Anna" }));
  await publish(change({ p1: "Ann" }));
  await erase("p9");
  const committed = (await destination.position())?.number ?? 0;
  const rival = openRival();
  const publishByRival = async (name: string) =>
    publishRows(rival, people, batchAfter(await rival.position()), [change({ p1: name })]);
  let isStalled = true;
  const stalling = {
    ...storage,
    list: async (folder: string) => {
      if (isStalled) {
        isStalled = false;
        await publishByRival("Bob");
        // Killed after it wrote the manifests of its next batch, which name the files of this one as removed.
        catalog.commits.push(() => 0);
        await publishByRival("Carl").catch(() => {});
      }
      return storage.list(folder);
    },
  };
  const rest = openCatalog(target);
  onTestFinished(() => rest.close());
  const removed = { snapshots: 0, files: 0 };
  const options = {
    catalog: rest,
    storageOf: () => stalling,
    committed,
    nowMs: Date.now(),
    purges: true,
    removed,
  };
  await expect(cleanTable(options, { namespace: "data", name: "person" })).rejects.toMatchObject({
    status: 409,
  });
  expect(await names()).toEqual(["Bob"]);
});

test("after the catalog was restored, an erasure waits for the files of later batches", async () => {
  const { catalog, publish, destination, erase, allNames } = await openIcebergFolder();
  await publish(change({ p1: "Ann", p2: "Bob" }));
  const saved = new Map([...catalog.tables].map(([name, table]) => [name, structuredClone(table)]));
  for (const name of ["Ben", "Bert"]) await publish(change({ p2: name }));
  for (const [name, table] of saved) catalog.register(name, table);
  await erase("p1");
  await expect(destination.finish()).rejects.toMatchObject({ code: "destination_busy" });
  await publish(change({ p2: "Bob" }));
  await destination.finish();
  expect(await allNames()).toEqual(["Bob"]);
});

test("a table whose location was changed is refused: its old folder would keep erased people", async () => {
  const { catalog, publish, destination, erase, metadata } = await openIcebergFolder();
  await publish(change({ p1: "Ann" }));
  const location = `${metadata().location}_moved`;
  catalog.register("data.person", { ...structuredClone(metadata()), location });
  const outside = { code: "destination_refused", message: expect.stringContaining("outside its folder") };
  await expect(erase("p1")).rejects.toMatchObject(outside);
  await expect(destination.finish()).rejects.toMatchObject(outside);
});

test("an erasure is done in spite of broken manifests and checksums, and waits no longer than a day without a new batch", async () => {
  const { publish, destination, erase, files, addForeign } = await openIcebergFolder();
  await publish(change({ p1: "Ann" }));
  const broken = await addForeign("metadata/000000000001-deadbeef-manifest.avro", 0);
  await addForeign("metadata/.00003-c0ffee.metadata.json.crc", 0);
  await erase("p1");
  await destination.finish();
  expect(await files()).not.toContain(broken);
  await addForeign("data/compaction.parquet", 0);
  await erase("p1");
  await expect(destination.finish()).rejects.toMatchObject({ code: "destination_busy" });
  for (const path of await files()) await age(path, 2 * DAY_MS);
  await destination.finish();
});

test("--full replaces a snapshot whose manifests are lost also by no rows", async () => {
  const { publish, destination, files, names } = await openIcebergFolder();
  await publish(change({ p1: "Ann" }));
  for (const path of await files())
    if (/\/person_[0-9a-f]{8}-.*manifests?\.avro$/u.test(path)) await rename(path, `${path}.lost`);
  const failure = await destination.finish().catch((error: unknown) => destination.explain(error));
  expect(failure).toMatchObject({ code: "destination_failed" });
  expect(await publish({ table: "person", replaces: "all", rows: [] })).toBe("committed");
  await destination.finish();
  expect(await names()).toEqual([]);
});

test("what a stalled publisher writes after an erasure is deleted within a day", async () => {
  const { publish, destination, erase, openRival, allNames } = await openIcebergFolder();
  await publish(change({ p1: "Ann", p2: "Bob" }));
  const rival = openRival();
  const batch = batchAfter(await destination.position());
  await erase("p1");
  await destination.finish();
  await stageAll(rival, people, batch, [{ table: "person", replaces: "all", rows: [person("p1", "Ann")] }]);
  await rival.close();
  await destination.finish();
  expect(await allNames()).toContain("Ann");
  vi.spyOn(Date, "now").mockReturnValue(Date.now() + DAY_MS);
  onTestFinished(() => void vi.restoreAllMocks());
  await destination.finish();
  expect(await allNames()).toEqual(["Bob"]);
});

test("the times of snapshots never go back, whatever the clock says", async () => {
  const { publish, metadata } = await openIcebergFolder();
  await publish(change({ p1: "Ann" }));
  vi.spyOn(Date, "now").mockReturnValue(Date.now() - 120_000);
  onTestFinished(() => void vi.restoreAllMocks());
  await publish(change({ p1: "Bob" }));
  const times = metadata().snapshots.map((snapshot) => Number(snapshot["timestamp-ms"]));
  expect(times).toEqual(times.toSorted((a, b) => a - b));
});

test("a closed destination leaves nothing of a batch in its folder", async () => {
  const { target, publish, destination } = await openIcebergFolder();
  await publish(change({ p1: "Ann" }));
  await publish(change({ p1: "Bob" }));
  await destination.close();
  expect(await readdir(target.folder)).toEqual(["lake.lock"]);
});

test("an erasure is done each night where another program commits twice between and the catalog lists one snapshot", async () => {
  const { catalog, target, storage, publish, destination, erase, metadata, files, allNames } =
    await openIcebergFolder();
  const rest = openCatalog(target);
  onTestFinished(() => rest.close());
  const keepCurrent = () =>
    catalog.register("data.person", { ...metadata(), snapshots: metadata().snapshots.slice(-1) });
  const commitByOther = async (prefix: string) => {
    const table = { namespace: "data", name: "person" };
    const loaded = await rest.loadTable(table);
    if (!loaded) throw new Error("no table");
    const before = await readSnapshot(storage, currentSnapshot(loaded.metadata));
    const change = { removed: new Set<string>(), added: [], prefix, before: { ...before, manifests: [] } };
    await rest.commit([await newSnapshot(storage, { table, loaded, ...change })]);
    keepCurrent();
  };
  await publish(change({ p1: "Ann", p2: "Bob", p3: "Carl" }));
  keepCurrent();
  for (const pid of ["p1", "p2"]) {
    for (const path of await files()) await age(path, DAY_MS);
    await commitByOther(`snap-${pid}-1`);
    await commitByOther(`snap-${pid}-2`);
    await erase(pid);
    keepCurrent();
    await destination.finish();
  }
  expect(await allNames()).toEqual(["Carl"]);
});

test("files beside the data and metadata of a table are cleaned, too, and a listing survives deletions", async () => {
  const { publish, destination, storage, files, addForeign, metadata } = await openIcebergFolder();
  await publish(change({ p1: "Ann" }));
  const beside = await addForeign("0_0_0.parquet", 2 * DAY_MS);
  await destination.finish();
  expect(await files()).not.toContain(beside);
  const deleted = await Promise.all(Array.from({ length: 200 }, (_, at) => addForeign(`data/x${at}`, 0)));
  const lists: number[] = [];
  const deletion = (async () => {
    for (const path of deleted) await rm(path);
  })();
  for (let round = 0; round < 20; round += 1) lists.push((await storage.list(metadata().location)).length);
  await deletion;
  expect(Math.min(...lists)).toBeGreaterThan(0);
});

test("two hosts finish at once", async () => {
  const { publish, erase, destination, openRival, allNames } = await openIcebergFolder();
  const rival = openRival();
  for (let round = 0; round < 4; round += 1) {
    await publish(change({ p1: `Ann ${round}`, p2: "Bob" }));
    await erase("p2");
    await Promise.all([destination.finish(), rival.finish()]);
    expect(await allNames()).toEqual([`Ann ${round}`]);
  }
});

test("a reread after a commit may come from a replica", async () => {
  const { catalog, publish, names } = await openIcebergFolder();
  await publish(change({ p1: "Ann" }));
  const name = "ops.publication_position";
  const old = catalog.tables.get(name);
  catalog.commits.push((apply) => {
    apply();
    const fresh = catalog.tables.get(name);
    if (!old || !fresh) throw new Error("no position");
    catalog.register(name, old);
    catalog.reads.push(() => catalog.register(name, fresh));
    return 204;
  });
  expect(await publish(change({ p1: "Bob" }))).toBe("committed");
  expect(await names()).toEqual(["Bob"]);
});

test("a table or view of others under a name of ours is named", async () => {
  const { catalog, destination } = await openIcebergFolder();
  const phones = catalogOf(["person", "person_email", "person_phone"]);
  catalog.creations.push(409);
  await expect(destination.migrate(phones)).rejects.toMatchObject({
    code: "destination_refused",
    message: expect.stringContaining("person_phone exists"),
  });
});
