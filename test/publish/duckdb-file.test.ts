import {
  chmod,
  copyFile,
  lchown,
  lstat,
  readdir,
  readFile,
  rename,
  stat,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { declaredCatalog, type Destination } from "../../src/publish/destination.ts";
import { describeThisProcess, ownerPrefix } from "../../src/process-state.ts";
import { openDuckDb } from "../../src/publish/duckdb/session.ts";
import { openDuckDbContext, rowsOfFile } from "./duckdb-context.ts";
import { batchAfter, publishRows } from "./staged-files.ts";

const catalog = declaredCatalog(["person"]);
const NOBODY = 65_534;

/** Runs the rest of the test as this user, by its own word. */
function actAs(uid: number): void {
  const getuid = vi.spyOn(process, "getuid").mockReturnValue(uid);
  onTestFinished(() => getuid.mockRestore());
}

const refusal = (work: Promise<unknown>) =>
  work.then(
    () => null,
    (error: unknown) => error,
  );

describe("the file of a DuckDB destination", () => {
  let context: Awaited<ReturnType<typeof openDuckDbContext>>;
  let destination: Destination;
  let path = "";

  /** Publishes one person in the place of all others. */
  async function publish(name: string): Promise<void> {
    const rows = [
      { service_pid: "p1", full_name: name, _synced_at: "2026-01-01T00:00:00+00:00", _run_id: "r" },
    ];
    const batch = batchAfter(await destination.position());
    await publishRows(destination, catalog, batch, [{ table: "person", replaces: "all", rows }]);
    await destination.finish();
  }
  const names = async (file = path) => (await rowsOfFile(file, "person")).map((row) => row["full_name"]);

  beforeEach(async () => {
    context = await openDuckDbContext();
    ({ destination, path } = context);
    await destination.migrate(catalog);
    await publish("Ada");
  });
  afterEach(() => context.close());

  test("is released again if it was put back, edited or replaced, and only then", async () => {
    const released = await stat(path);
    await destination.finish();
    expect((await stat(path)).ino).toBe(released.ino);

    const backup = join(context.folder, "backup");
    await copyFile(path, backup);
    await publish("Bob");
    await copyFile(backup, path);
    await utimes(path, released.atime, released.mtime);
    expect(await names()).toEqual(["Ada"]);
    await destination.finish();
    expect(await names()).toEqual(["Bob"]);

    const editor = await openDuckDb(path, context.folder);
    await editor.run("UPDATE person_data.person SET full_name = 'Eve'");
    editor.close();
    await destination.finish();
    expect(await names()).toEqual(["Bob"]);
  });

  test("is replaced where a link leads, and the link stays", async () => {
    const shared = join(context.folder, "shared.duckdb");
    await rename(path, shared);
    await symlink("shared.duckdb", path);
    await publish("Bob");
    expect([await names(shared), (await lstat(path)).isSymbolicLink()]).toEqual([["Bob"], true]);
  });

  test("is not written through a link of another user", async () => {
    const theirs = join(context.folder, "theirs");
    await rename(path, theirs);
    await symlink(theirs, path);
    if (process.getuid?.() === 0) await lchown(path, NOBODY, NOBODY);
    else actAs(NOBODY);
    expect(await refusal(publish("Bob"))).toMatchObject({ code: "destination_refused" });
    expect(await destination.check(catalog)).toMatchObject([
      { ok: false, message: expect.stringContaining("link of another user") },
    ]);
    expect(await names(theirs)).toEqual(["Ada"]);
  });

  test("is never written under a name that exists already, and leaves none behind", async () => {
    const precious = join(context.folder, "precious");
    await writeFile(precious, "root:secret");
    await symlink(precious, `${path}.new`);
    await publish("Bob");
    expect(await readFile(precious, "utf8")).toBe("root:secret");
    expect((await readdir(context.folder)).toSorted()).toEqual([
      "own",
      "people.duckdb",
      "people.duckdb.new",
      "precious",
    ]);
  });

  test("loses the copies of publications that were killed, not of one that runs", async () => {
    const ourselves = await describeThisProcess();
    const leave = async (prefix: string) => {
      const copy = `people.duckdb.${prefix}0123456789ab`;
      await writeFile(join(context.folder, copy), "Ada");
      return copy;
    };
    const running = await leave(ownerPrefix(ourselves));
    await leave(ownerPrefix({ ...ourselves, processStart: "1" }));
    await leave(ownerPrefix({ ...ourselves, machine: "another-container-4026531836" }));
    await leave("");
    await publish("Bob");
    expect((await readdir(context.folder)).toSorted()).toEqual(["own", "people.duckdb", running]);
  });

  test("is not published as root into a folder that others can write to", async () => {
    actAs(0);
    await chmod(context.folder, 0o777);
    expect(await refusal(publish("Bob"))).toMatchObject({ code: "destination_refused" });
    expect(await destination.check(catalog)).toMatchObject([
      { ok: false, message: expect.stringContaining("as root") },
    ]);
    expect(await names()).toEqual(["Ada"]);
  });
});
