import { mkdir, readdir, readFile, rename, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { compareWithPostgres } from "../publish/compare-with-postgres.ts";
import { rowsOfFile } from "../publish/duckdb-context.ts";
import { runCli, runJson } from "./support/cli.ts";
import { makeSetting } from "./support/setting.ts";

const PUBLISH = "publish:\n  local: { type: duckdb, path: copies/people.duckdb }\n";

async function makePublished() {
  const setting = await makeSetting({ rows: 120 });
  await setting.configure({}, PUBLISH);
  await mkdir(join(setting.cwd, "copies"));
  return { ...setting, path: join(setting.cwd, "copies/people.duckdb") };
}

/** Expects every published table to equal Postgres, value by value; returns the number of rows. */
async function expectEqual({ url, path }: { readonly url: string; readonly path: string }): Promise<number> {
  const { rows, differing } = await compareWithPostgres(url, (table) => rowsOfFile(path, table));
  expect(differing).toEqual({});
  return rows;
}

test("a run publishes its changes, value by value, and reports them", async () => {
  const setting = await makePublished();
  const checked = await runJson(["check"], setting);
  expect(checked.document["checks"]).toContainEqual(
    expect.objectContaining({ subject: "publish.local", status: "ok" }),
  );
  const first = await runJson(["run"], setting);
  expect([first.code, first.document["publications"]]).toMatchObject([
    0,
    [{ destination: "local", status: "published" }],
  ]);
  expect(await expectEqual(setting)).toBeGreaterThan(1000);
  expect((await stat(setting.path)).mode & 0o777).toBe(0o600);

  const second = await runCli(["run"], setting);
  expect(second.stdout).toContain("✓ local: ");
  // Replication applies changes without triggers.
  await setting.query(
    `SET session_replication_role = replica;
     UPDATE person_data.person_email SET email_address = 'x' WHERE position = 0;
     RESET session_replication_role`,
  );
  const verified = await runJson(["publish", "--verify"], setting);
  expect([verified.code, verified.document["destinations"]]).toMatchObject([
    0,
    [{ tables_differing: ["person_email"] }],
  ]);
  await expectEqual(setting);
  const status = await runJson(["status"], setting);
  expect(status.document["publications"]).toMatchObject([
    { destination: "local", keys_waiting: 0, is_configured: true },
  ]);
  expect((await runCli(["status"], setting)).stdout).toContain("keys waiting");
});

test("publish refuses unknown destinations, exits 3 until --full, and removes one with --drop", async () => {
  const setting = await makePublished();
  await runJson(["run"], setting);
  const unknown = await runJson(["publish", "elsewhere"], setting);
  expect([unknown.code, unknown.document.error?.code]).toEqual([2, "unknown_destination"]);
  const kept = await runJson(["publish", "--drop", "local"], setting);
  expect([kept.code, kept.document.error?.code]).toEqual([2, "usage"]);

  await setting.query(
    "UPDATE person_data_state.destination SET claimed_id = gen_random_uuid(), confirmed_id = gen_random_uuid()",
  );
  const refused = await runJson(["publish"], setting);
  expect([refused.code, refused.document["destinations"]]).toMatchObject([
    3,
    [{ error: { code: "publication_refused" } }],
  ]);
  expect((await runJson(["run"], setting)).code).toBe(0);
  expect((await runJson(["publish", "--full"], setting)).code).toBe(0);
  await expectEqual(setting);

  await setting.configure({});
  const dropped = await runJson(["publish", "--drop", "local"], setting);
  expect([dropped.code, dropped.document]).toEqual([0, { dropped: "local" }]);
  expect(await readdir(join(setting.cwd, ".person-etl/publish/duckdb"))).toEqual(["local.lock"]);
  expect(await setting.query("SELECT tgname FROM pg_trigger WHERE tgname LIKE 'publish%'")).toEqual([]);
});

test("an erasure is done only when every destination shows it", async () => {
  const setting = await makePublished();
  await runJson(["run"], setting);
  const [person] = await setting.query(
    "SELECT service_pid AS pid, full_name AS name FROM person_data.person ORDER BY 1 LIMIT 1",
  );
  const pid = String(person?.["pid"]);
  await rename(join(setting.cwd, "copies"), join(setting.cwd, "away"));
  const publicationOf = async () =>
    ((await runJson(["status"], setting)).document["publications"] as Record<string, unknown>[])[0];
  const before = await publicationOf();
  const pending = await runJson(["erase", "--pid", pid, "--yes"], setting);
  expect([pending.code, pending.document]).toMatchObject([
    3,
    { status: "pending", waiting_for: [{ kind: "destination", name: "local" }] },
  ]);
  // The working file has the batch, but readers have the file without it.
  const waiting = await publicationOf();
  expect(waiting?.["last_published_at"]).toBe(before?.["last_published_at"]);
  expect(waiting?.["lag_seconds"]).toBeGreaterThan(0);
  await rename(join(setting.cwd, "away"), join(setting.cwd, "copies"));
  expect((await runJson(["run"], setting)).code).toBe(0);
  expect((await publicationOf())?.["last_published_at"]).not.toBe(before?.["last_published_at"]);
  const open = "SELECT FROM person_data_ops.erasure_subject WHERE completed_at IS NULL";
  expect(await setting.query(open)).toEqual([]);
  expect((await runJson(["publish"], setting)).code).toBe(0);
  await expectEqual(setting);
  for (const file of [setting.path, join(setting.cwd, ".person-etl/publish/duckdb/local.duckdb")]) {
    expect((await readFile(file)).includes(String(person?.["name"]))).toBe(false);
  }
});

test("a destination that is named like an engine leaves the files of others alone", async () => {
  const setting = await makePublished();
  const other = "  duckdb: { type: duckdb, path: copies/other.duckdb }\n";
  await setting.configure({}, PUBLISH + other);
  expect((await runJson(["run"], setting)).code).toBe(0);
  expect((await runJson(["publish", "duckdb"], setting)).code).toBe(0);
  expect((await runJson(["publish", "local"], setting)).code).toBe(0);
  const folder = join(setting.cwd, ".person-etl/publish/duckdb");
  expect((await readdir(folder)).toSorted()).toEqual(
    expect.arrayContaining(["duckdb.duckdb", "local.duckdb"]),
  );
});
