import {
  chmod,
  type FileHandle,
  mkdir,
  open as openFile,
  readdir,
  readFile,
  rm,
  stat,
  writeFile,
} from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { explainSpoolFailure } from "../../src/spool/spool.ts";
import { surveySpool } from "../../src/spool/files.ts";
import { callId, filesBelow, found, keep, makeRoot, open } from "./spool-folder.ts";
import * as fc from "../support/fast-check.ts";

describe("a kept answer", () => {
  test("is found unchanged by the next run, and is gone once removed", async () => {
    const root = await makeRoot();
    const call = await keep(await open(root), 1, Buffer.from([0, 255, 10, 13]));
    const next = await open(root);
    expect([next.calls, next.bytes]).toEqual([1, call.bytes]);
    const [leftover] = await next.leftovers();
    expect(leftover).toEqual(call);
    expect(await next.read(call)).toEqual({
      kind: "whole",
      header: { n: 1 },
      body: Buffer.from([0, 255, 10, 13]),
    });
    await next.remove(call);
    await next.remove(call);
    expect([next.calls, next.bytes, await found(next)]).toEqual([0, 0, []]);
    expect(await next.read(call)).toEqual({ kind: "gone" });
    expect(await filesBelow(root)).toEqual([]);
  });

  test("has a name that sorts by time and holds only the call's id, in a folder that only this user can enter", async () => {
    const root = await makeRoot();
    await mkdir(root, { recursive: true, mode: 0o755 });
    await chmod(root, 0o755);
    const spool = await open(root);
    await keep(spool, 1);
    await keep(spool, 0);
    expect(await filesBelow(root)).toEqual([
      "w1/enrich_customers/0-of-1/20261121T050530123Z-00000000-0000-4000-8000-000000000000.call",
      "w1/enrich_customers/0-of-1/20261121T050531123Z-00000000-0000-4000-8000-000000000001.call",
    ]);
    expect(await found(spool)).toEqual([0, 1]);
    for (let folder = spool.folder; folder !== dirname(root); folder = dirname(folder)) {
      expect((await stat(folder)).mode & 0o777).toBe(0o700);
    }
    for (const file of await filesBelow(root)) {
      expect((await stat(join(root, file))).mode & 0o777).toBe(0o600);
    }
  });
});

test("an answer is synced before it has its name, and its name before the write resolves", async () => {
  const spool = await open(await makeRoot());
  const handle = await openFile(spool.folder, "r");
  // All file handles share this prototype.
  const prototype = Object.getPrototypeOf(handle) as FileHandle;
  await handle.close();
  const namesAtSync: string[][] = [];
  const sync = vi.spyOn(prototype, "sync").mockImplementation(async function (this: FileHandle) {
    namesAtSync.push((await readdir(spool.folder)).map((name) => name.replace(/^.*\.call/u, "call")));
    await this.datasync();
  });
  try {
    await keep(spool, 1);
    expect(namesAtSync).toEqual([["call.tmp"], ["call"]]);
  } finally {
    sync.mockRestore();
  }
});

describe("after a crash", () => {
  test("half-written files are cleared away, whole ones stay", async () => {
    const root = await makeRoot();
    const spool = await open(root);
    const { path } = await keep(spool, 1);
    const half = (await readFile(path)).subarray(0, 50);
    await writeFile(join(spool.folder, `20261121T050530123Z-${callId(2)}.call.tmp`), half);
    const next = await open(root);
    expect(await found(next)).toEqual([1]);
    expect(await filesBelow(root)).toHaveLength(1);
  });

  test("a damaged file is moved to quarantine, reported, and no longer counted", async () => {
    const root = await makeRoot();
    const spool = await open(root);
    const { path } = await keep(spool, 1);
    await keep(spool, 2);
    await writeFile(path, (await readFile(path)).subarray(0, -1));
    const next = await open(root);
    const movedTo = path.replace("0-of-1", "quarantine");
    const [damaged] = await next.leftovers();
    if (!damaged) throw new Error("no call");
    expect(await next.read(damaged)).toEqual({ kind: "damaged", reason: "wrong_length" });
    expect(await next.quarantine(damaged)).toBe(movedTo);
    expect([next.calls, await found(next)]).toEqual([1, [2]]);
    expect((await stat(movedTo)).mode & 0o777).toBe(0o600);
    expect(await surveySpool(root)).toEqual({
      contents: [expect.objectContaining({ job: "enrich_customers", shard: "0/1", calls: 1 })],
      quarantined: [{ warehouse: "w1", job: "enrich_customers", folder: dirname(movedTo), files: 1 }],
    });
  });

  test("a file of a later version is left in place", async () => {
    const root = await makeRoot();
    const spool = await open(root);
    const call = await keep(spool, 1);
    const bytes = await readFile(call.path);
    bytes.write("PETLSPL3", "latin1");
    await writeFile(call.path, bytes);
    expect(await spool.read(call)).toEqual({ kind: "unknown_form" });
    expect(await found(spool)).toEqual([1]);
  });
});

describe("a load", () => {
  test("is marked before it starts; the mark survives a crash and can be removed", async () => {
    const root = await makeRoot();
    const spool = await open(root);
    const call = await keep(spool, 1);
    const tried = await spool.beginTry(call);
    expect([tried.tries, tried.path]).toEqual([1, call.path.replace(".call", ".try1.call")]);
    const [afterCrash] = await (await open(root)).leftovers();
    expect(afterCrash).toEqual(tried);
    const again = await spool.beginTry(tried);
    expect([again.tries, (await spool.read(again)).kind]).toEqual([2, "whole"]);
    expect(await spool.takeTryBack(again)).toEqual(tried);
    expect(await spool.takeTryBack(tried)).toEqual(call);
    await spool.remove(await spool.beginTry(call));
    expect([spool.calls, await filesBelow(root)]).toEqual([0, []]);
  });
});

describe("one data_dir", () => {
  test("keeps warehouses, jobs and shards of one N apart", async () => {
    const root = await makeRoot();
    const owners = [
      { shard: "0/2" },
      { shard: "1/2" },
      { job: "resolve_customers", shard: "0/2" },
      { warehouse: "w2", shard: "0/2" },
    ];
    for (const [n, owner] of owners.entries()) {
      const spool = await open(root, owner);
      await keep(spool, n);
      await writeFile(join(spool.folder, "being written.tmp"), "");
    }
    for (const [n, owner] of owners.entries()) expect(await found(await open(root, owner))).toEqual([n]);
    // Each opening cleared only its own folder.
    expect(await filesBelow(root)).toHaveLength(owners.length);
  });

  test("gives a dead shard's answers to every shard of the next N, and removes its empty folder", async () => {
    const root = await makeRoot();
    await keep(await open(root, { shard: "3/4" }), 2);
    await keep(await open(root, { shard: "1/4" }), 1);
    const [first, second] = [await open(root, { shard: "0/2" }), await open(root, { shard: "1/2" })];
    await keep(first, 3);
    expect([await found(first), await found(second)]).toEqual([
      [1, 2, 3],
      [1, 2],
    ]);
    for (const call of await second.leftovers()) await second.remove(call);
    expect([await found(first), await found(second)]).toEqual([[3], []]);
    expect((await surveySpool(root)).contents).toMatchObject([{ shard: "0/2", calls: 1 }]);
    await expect(stat(join(root, "w1", "enrich_customers", "3-of-4"))).rejects.toThrow("ENOENT");
  });
});

describe("the bound", () => {
  test("stops calls before answers in flight could exceed it, and resumes them after a removal", async () => {
    const spool = await open(await makeRoot(), {}, 10_000);
    expect([spool.hasSpace(0), spool.hasSpace(1)]).toEqual([true, false]);
    const first = await keep(spool, 1, Buffer.alloc(2900));
    expect(first.bytes).toBeGreaterThan(2900);
    expect([spool.hasSpace(0), spool.hasSpace(1), spool.hasSpace(2)]).toEqual([true, true, false]);
    const removal = spool.nextRemoval();
    await keep(spool, 2, Buffer.alloc(2900));
    await keep(spool, 3, Buffer.alloc(2900));
    expect(spool.hasSpace(0)).toBe(false);
    await spool.remove(first);
    await removal;
    expect(spool.hasSpace(0)).toBe(true);
  });

  test("never refuses an answer, and never stops the only call", async () => {
    const spool = await open(await makeRoot(), {}, 10);
    expect(spool.hasSpace(0)).toBe(true);
    const call = await keep(spool, 1);
    expect([spool.hasSpace(0), await found(spool)]).toEqual([false, [1]]);
    await spool.remove(call);
    expect(spool.hasSpace(0)).toBe(true);
  });

  test("counts what earlier runs left", async () => {
    const root = await makeRoot();
    await keep(await open(root), 1, Buffer.alloc(5000));
    expect((await open(root, {}, 9000)).hasSpace(0)).toBe(false);
  });
});

test("files written and removed concurrently leave those that were not removed", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(fc.record({ n: fc.nat(999), size: fc.nat(5000), isRemoved: fc.boolean() }), {
        selector: ({ n }) => n,
        maxLength: 12,
      }),
      async (calls) => {
        const root = await makeRoot();
        const spool = await open(root);
        await Promise.all(
          calls.map(async ({ n, size, isRemoved }) => {
            const call = await keep(spool, n, Buffer.alloc(size, String(n)));
            if (isRemoved) await spool.remove(call);
          }),
        );
        const expected = calls.filter(({ isRemoved }) => !isRemoved).map(({ n }) => n);
        const next = await open(root);
        expect(await found(next)).toEqual(expected.toSorted((a, b) => a - b));
        expect([spool.calls, spool.bytes]).toEqual([next.calls, next.bytes]);
        for (const call of await next.leftovers()) expect((await next.read(call)).kind).toBe("whole");
        await rm(dirname(root), { recursive: true });
      },
    ),
    { numRuns: 40 },
  );
});

test("a spool that doesn't exist yet is empty", async () => {
  expect(await surveySpool(await makeRoot())).toEqual({ contents: [], quarantined: [] });
});

test.each(["EMFILE", "ENFILE"])("%s is explained by the limit of open files, and how to raise it", (code) => {
  const error = explainSpoolFailure(Object.assign(new Error("open"), { code }), "/data/spool");
  expect([error.code, error.message]).toEqual([
    "spool_failed",
    `Received responses can't be written to /data/spool (${code}: too many open files), so nothing more is sent. Raise the limit ` +
      "(ulimit -n, LimitNOFILE= of a systemd unit; 1024 suffice), or lower service.concurrency, and run again.",
  ]);
});
