import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, rename, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { expect, onTestFinished, test } from "vitest";

import { catalogOf } from "../../src/publish/destination.ts";
import { openIcebergDestination } from "../../src/publish/iceberg/destination.ts";
import { AT, age, change, DAY_MS, openIcebergFolder, people, person } from "./iceberg-folder.ts";
import { batchAfter, stageAll } from "./staged-files.ts";

test.each(["file:", "file://", "file://localhost"])(
  "no file of the current snapshot is deleted where the catalog writes addresses as %s/path",
  async (spelling) => {
    const { publish, destination, erase, names, files } = await openIcebergFolder(spelling);
    await publish(change({ p1: "Ann", p2: "Bob" }));
    await destination.finish();
    expect(await names()).toEqual(["Ann", "Bob"]);
    await erase("p1");
    await destination.finish();
    expect(await names()).toEqual(["Bob"]);
    const own = (await files()).filter((path) => path.includes("/person_") && path.endsWith(".parquet"));
    expect(own).toHaveLength(1);
    for (const path of own) expect((await stat(path)).mode & 0o777).toBe(0o600);
  },
);

test("nothing is deleted in a folder whose listing lacks a file of the current snapshot", async () => {
  const { publish, destination, files } = await openIcebergFolder();
  await publish(change({ p1: "Ann" }));
  const [lost = ""] = (await files()).filter((path) => path.includes("/data/"));
  await rename(lost, `${lost}.lost`);
  const before = await files();
  await expect(destination.finish()).rejects.toThrow(/doesn't list the table's own file/u);
  expect(await files()).toEqual(before);
});

test("former snapshots expire a day after they were replaced, with their files", async () => {
  const { publish, destination, metadata, files, names } = await openIcebergFolder();
  await publish(change({ p1: "First" }));
  await publish(change({ p1: "Second" }));
  await destination.finish();
  expect(metadata().snapshots).toHaveLength(2);
  // Both were committed two days ago: the second was current until now.
  for (const snapshot of metadata().snapshots)
    snapshot["timestamp-ms"] = Number(snapshot["timestamp-ms"]) - 2 * DAY_MS;
  for (const path of await files()) if (path.includes("/person_")) await age(path, 2 * DAY_MS);
  await publish(change({ p1: "Third" }));
  await destination.finish();
  const data = (await files()).filter((path) => /\/person_.*\/data\//u.test(path));
  expect([metadata().snapshots.length, data.length]).toEqual([2, 2]);
  expect(await names()).toEqual(["Third"]);
});

test("an erasure waits for files of others that no snapshot has, until they are a day old", async () => {
  const { publish, destination, erase, files, addForeign } = await openIcebergFolder();
  await publish(change({ p1: "Ann", p2: "Bob" }));
  const old = await addForeign("data/old-compaction.parquet", DAY_MS + 60_000);
  const young = await addForeign("data/compaction.parquet", 0);
  await destination.finish();
  expect(await files()).not.toContain(old);
  expect(await files()).toContain(young);
  await erase("p1");
  await expect(destination.finish()).rejects.toMatchObject({
    code: "destination_busy",
    message: expect.stringContaining("compaction.parquet"),
  });
  expect(await files()).toContain(young);
  await age(young, DAY_MS + 60_000);
  await destination.finish();
  expect(await files()).not.toContain(young);
});

test("an erasure removes the statistics, branches and tags of others", async () => {
  const { publish, destination, erase, metadata, files, addForeign } = await openIcebergFolder();
  await publish(change({ p1: "Ann" }));
  const path = await addForeign("metadata/sketches.puffin", 0);
  const id = metadata()["current-snapshot-id"];
  metadata().statistics.push({ "snapshot-id": id, "statistics-path": pathToFileURL(path).href });
  metadata().refs["audit"] = { "snapshot-id": id };
  await publish(change({ p2: "Bob" }));
  await destination.finish();
  expect(await files()).toContain(path);
  await erase("p1");
  expect(await destination.finish()).toEqual({ snapshots: 4, files: 12 });
  expect(await files()).not.toContain(path);
  expect(metadata()).toMatchObject({ statistics: [], refs: { main: {} } });
  expect([Object.keys(metadata().refs), metadata().snapshots.length]).toEqual([["main"], 1]);
});

test("tables that share a folder aren't cleaned, and a copy under another name isn't ours", async () => {
  const { catalog, publish, destination, metadata, files } = await openIcebergFolder();
  await publish(change({ p1: "Ann" }));
  catalog.register("data.person_copy", structuredClone(metadata()));
  const before = await files();
  await expect(destination.finish()).rejects.toMatchObject({
    code: "destination_refused",
    message: expect.stringContaining("data.person and data.person_copy share the folder"),
  });
  expect(await files()).toEqual(before);
  // Under the name of a table that is no longer published.
  catalog.register("data.person_phone", { ...structuredClone(metadata()), location: "file:/elsewhere" });
  await destination.migrate(catalogOf(["person"])).catch((error: unknown) => error);
  expect(catalog.tables.has("data.person_phone")).toBe(true);
});

test("files outside the configured folder are neither written nor deleted", async () => {
  const { catalog, publish, destination, metadata } = await openIcebergFolder();
  catalog.register("data.person", { ...metadata(), location: "file:///etc/person" });
  const failure = await publish(change({ p1: "Ann" })).catch((error: unknown) => destination.explain(error));
  expect(failure).toMatchObject({
    code: "destination_refused",
    message: expect.stringContaining("outside local_folder"),
  });
});

test("a commit whose answer is lost counts if the catalog has it", async () => {
  const { catalog, publish, destination, names } = await openIcebergFolder();
  for (const status of [0, 500, 503, 504]) {
    catalog.commits.push((apply) => {
      apply();
      return status;
    });
    expect(await publish(change({ p1: `Applied ${status}` }))).toBe("committed");
    expect(await names()).toEqual([`Applied ${status}`]);
  }
  await destination.finish();
});

test("a commit that failed is no success, and the next attempt leaves none of its rows", async () => {
  const { catalog, publish, destination, names, files } = await openIcebergFolder();
  await publish(change({ p1: "Before" }));
  for (const status of [0, 500, 400]) {
    catalog.commits.push(() => status);
    await expect(publish(change({ p1: `Lost ${status}` }))).rejects.toThrow(/fetch failed|returned \d/u);
    expect(await names()).toEqual(["Before"]);
  }
  await publish(change({ p1: "After" }));
  await destination.finish();
  expect(await names()).toEqual(["After"]);
  // The data files of both snapshots.
  expect((await files()).filter((path) => /\/person_.*\/data\//u.test(path))).toHaveLength(2);
});

test("a commit that the catalog confirms but doesn't have is no success", async () => {
  const { catalog, publish } = await openIcebergFolder();
  catalog.commits.push(() => 204);
  await expect(publish(change({ p1: "Ann" }))).rejects.toMatchObject({ code: "destination_refused" });
});

test("a conflict with a change of others is tried again on their state, and some conflicts are too many", async () => {
  const { catalog, publish, destination, names } = await openIcebergFolder();
  catalog.commits.push(() => 409);
  expect(await publish(change({ p1: "Ann" }))).toBe("committed");
  catalog.commits.push(...Array.from({ length: 5 }, () => () => 409));
  const failure = await publish(change({ p1: "Bob" })).catch((error: unknown) => destination.explain(error));
  expect(failure).toMatchObject({ code: "destination_busy" });
  expect(await names()).toEqual(["Ann"]);
});

test("a catalog that applies a part of a commit is refused", async () => {
  const { catalog, publish, destination } = await openIcebergFolder();
  const email = { table: "person_email", keys: [{ service_pid: "p1" }], rows: [] };
  await publish(change({ p1: "Ann" }), {
    ...email,
    rows: [
      {
        service_pid: "p1",
        email_type: "work",
        position: 0,
        email_address: "a@example.com",
        _synced_at: AT,
        _run_id: "r1",
      },
    ],
  });
  const last = await destination.position();
  // The first table only: the position is the last change.
  catalog.commits.push((apply) => {
    apply(1);
    return 204;
  });
  await expect(publish(change({ p1: "Bob" }), email)).rejects.toMatchObject({ code: "destination_refused" });
  expect(await destination.position()).toEqual(last);
  // All but the first table.
  catalog.commits.push((apply, changes) => {
    apply();
    const { identifier } = changes[0] ?? { identifier: { name: "" } };
    const half = structuredClone(catalog.tables.get(`data.${identifier.name}`));
    if (half)
      catalog.register(`data.${identifier.name}`, { ...half, snapshots: half.snapshots.slice(0, -1) });
    return 500;
  });
  await expect(publish(change({ p1: "Carl" }), email)).rejects.toThrow(/applied a part of a batch/u);
});

test("the files of an overtaken attempt are deleted", async () => {
  const { publish, destination, files } = await openIcebergFolder();
  await publish(change({ p1: "Ann" }));
  const at = await destination.position();
  const late = batchAfter(at);
  const changes = await stageAll(destination, people, late, [
    { table: "person", replaces: "all", rows: [person("p1", "Late")] },
  ]);
  const other = (await files()).filter((path) => path.includes(`-${late.attempt}-`));
  expect(other.length).toBeGreaterThan(0);
  // Another process commits its batch, and its cleaning comes before the files are written.
  await publish(change({ p1: "Bob" }));
  const again = { ...late, attempt: "late2" };
  const restaged = await stageAll(destination, people, again, [
    { table: "person", replaces: "all", rows: [person("p1", "Late")] },
  ]);
  expect(await destination.commit({ ...again, changes: restaged, erases: false })).toBe("refused");
  expect((await files()).filter((path) => path.includes("-late2-"))).toEqual([]);
  expect(changes).toHaveLength(1);
});

test("a process leaves the staged files of another one alone", async () => {
  const { target, publish } = await openIcebergFolder();
  await publish(change({ p1: "Ann" }));
  const destination = openIcebergDestination({ ...target, name: "local" });
  onTestFinished(() => destination.close());
  const staged = join(target.folder, "local.staged", "other");
  const program = fileURLToPath(new URL("hold-duckdb.ts", import.meta.url));
  // A destination in DuckDB, which locks its files under the same name.
  const args = [program, join(target.folder, "held.duckdb"), target.folder];
  const holder = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
  await once(holder.stdout, "data");
  await mkdir(staged, { recursive: true });
  await writeFile(join(staged, "person-keys-0-0"), "x");
  const batch = { ...batchAfter(await destination.position()), changes: [], erases: false };
  const failures = [
    await stageAll(destination, people, batch, [change({ p1: "Bob" })]).catch((error: unknown) => error),
    await destination.commit(batch).catch((error: unknown) => error),
  ];
  expect(failures).toMatchObject([{ code: "locked" }, { code: "locked" }]);
  expect(await readdir(staged)).toEqual(["person-keys-0-0"]);
  holder.stdin.end();
  await once(holder, "exit");
  expect(await destination.commit(batch)).toBe("committed");
  expect(await readdir(target.folder)).not.toContain("local.staged");
});

test("reads of the catalog are repeated after failures that pass", async () => {
  const { catalog, destination } = await openIcebergFolder();
  catalog.reads.push(503, 0);
  expect(await destination.position()).toBe(null);
  catalog.reads.push(403);
  const failure = await destination.position().catch((error: unknown) => destination.explain(error));
  expect(failure).toMatchObject({ code: "destination_refused" });
});

test("IDs of fields that aren't integers are refused before they are part of a statement", async () => {
  const { catalog, metadata, publish } = await openIcebergFolder();
  const [schema] = metadata()["schemas"] as { fields: { id: unknown }[] }[];
  const fields = (schema?.fields ?? []).map((field) => ({ ...field, id: "1}); DROP TABLE changed" }));
  catalog.register("data.person", { ...metadata(), schemas: [{ ...schema, fields }] });
  await expect(publish(change({ p1: "Ann" }))).rejects.toThrow(/isn't an integer/u);
});
