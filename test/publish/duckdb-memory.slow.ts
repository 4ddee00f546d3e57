import { mkdtemp, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, inject, onTestFinished, test, vi } from "vitest";
import { catalogOf, type Catalog } from "../../src/publish/destination.ts";
import { copyDatabase, type DuckSession, openDuckDb } from "../../src/publish/duckdb/session.ts";
import { openDuckDbContext, rowsOfFile } from "./duckdb-context.ts";
import { batchAfter, publishRows, stageAll } from "./staged-files.ts";

const SECRET = "Xylophonia Quintessence-Vanderbilt";
const extra = Array.from({ length: 100 }, (_, n) => `extra_${n}`);
const declared: Catalog = { ...catalogOf(["person"]), dropped: [] };
/** A table so wide that the checkpoint of its second change takes more memory than the session has. */
const catalog: Catalog = {
  ...declared,
  tables: declared.tables.map((table) => ({
    ...table,
    columns: [
      ...table.columns,
      ...extra.map((name) => ({ name, type: "text" as const, pii: "indirect" as const, doc: "More." })),
    ],
  })),
};

const rowsOf = (pids: readonly number[], name: string) =>
  pids.map((pid) => ({
    service_pid: `p${pid}`,
    full_name: name,
    _record_synced_at: "2026-01-01T00:00:00+00:00",
    _synced_at: "2026-01-01T00:00:00+00:00",
    _run_id: "r",
    ...Object.fromEntries(extra.map((column, index) => [column, `${name} ${pid * index}`])),
  }));

test("changes and erasures reach readers where a checkpoint needs more memory than usual", async () => {
  const context = await openDuckDbContext();
  const { destination, path } = context;
  const own = join(context.folder, "own", "local.duckdb");
  const people = Array.from({ length: 1000 }, (_, pid) => pid);
  await destination.migrate(catalog);
  await publishRows(destination, catalog, batchAfter(null), [
    { table: "person", replaces: "all", rows: rowsOf(people, "Ada") },
  ]);
  await destination.finish();
  for (const name of ["Bob", SECRET]) {
    const rows = rowsOf(
      people.filter((pid) => pid % 10 === 7),
      name,
    );
    const keys = rows.map(({ service_pid }) => ({ service_pid }));
    const batch = batchAfter(await destination.position());
    await publishRows(destination, catalog, batch, [{ table: "person", keys, rows }]);
    await destination.finish();
  }
  const named = async (name: string) =>
    (await rowsOfFile(path, "person")).filter((row) => row["full_name"] === name).length;
  expect([await named("Ada"), await named(SECRET)]).toEqual([900, 100]);
  const keys = people.filter((pid) => pid % 10 === 7).map((pid) => ({ service_pid: `p${pid}` }));
  const erasure = batchAfter(await destination.position());
  const changes = await stageAll(destination, catalog, erasure, [{ table: "person", keys }]);
  await destination.commit({ ...erasure, changes, erases: true });
  await destination.finish();
  expect([await named("Ada"), await named(SECRET)]).toEqual([900, 0]);
  for (const file of [path, own]) expect((await readFile(file)).includes("Quintessence")).toBe(false);
  await context.close();
});

test("a batch finds its keys in all parts of a table of nine million rows", async () => {
  const context = await openDuckDbContext();
  const { destination, path } = context;
  await destination.migrate(declared);
  await publishRows(destination, declared, batchAfter(null), [
    { table: "person", replaces: "all", rows: rowsOf([0], "Ada") },
  ]);
  await destination.close();
  const working = await openDuckDb(join(context.folder, "own", "local.duckdb"), context.folder);
  await working.transaction(() =>
    working.run(
      "INSERT INTO person_data.person (service_pid, full_name) SELECT 'p' || i, 'Ada' FROM range(1, 9000000) AS numbers(i)",
    ),
  );
  await working.checkpoint();
  working.close();
  const pids = Array.from({ length: 9_000 }, (_, i) => i * 1000 + 1);
  const keys = pids.map((pid) => ({ service_pid: `p${pid}` }));
  const batch = batchAfter(await destination.position());
  await publishRows(destination, declared, batch, [{ table: "person", keys, rows: rowsOf(pids, "Bob") }]);
  await destination.finish();
  const readers = await openDuckDb(path, context.folder);
  expect(
    await readers.transaction(() =>
      readers.rows(
        "SELECT full_name, count(*)::VARCHAR AS rows FROM person_data.person GROUP BY full_name ORDER BY full_name",
      ),
    ),
  ).toEqual([
    { full_name: "Ada", rows: "8991000" },
    { full_name: "Bob", rows: "9000" },
  ]);
  readers.close();
  await context.close();
});

/** Rows that a scan takes at once, see `session.ts`. */
const ROWS_PER_SCAN = 1_300_000;

/** Rows of a file's own tables, with deleted ones. */
const sizeOf = async (from: DuckSession) => {
  const [size] = await from.rows(
    "SELECT sum(estimated_size)::VARCHAR AS n FROM duckdb_tables() WHERE schema_name = 'main'",
  );
  return Number(size?.["n"]);
};

test("a file with deleted rows all over is changed, checkpointed, measured and copied within the memory of a session", async () => {
  const folder = await mkdtemp(join(inject("runFolder"), "marks-"));
  const constrained = vi.spyOn(process, "constrainedMemory").mockReturnValue(100 * 1024 ** 2);
  onTestFinished(() => constrained.mockRestore());
  const session = await openDuckDb(join(folder, "marks.duckdb"), folder);
  const tables = ["one", "two", "three"];
  const rows = 3 * ROWS_PER_SCAN - 1;
  for (const table of tables)
    await session.transaction(() =>
      session.run(`CREATE TABLE ${table} AS SELECT i FROM range(${rows}) AS r(i)`),
    );
  for (const modulus of [7, 8])
    for (const table of tables)
      await session.scan("main", table, (range) =>
        session.transaction(() =>
          session.run(`DELETE FROM ${table} WHERE i % 1000 = ${modulus} AND ${range}`),
        ),
      );
  await session.checkpoint();
  // Had rows moved to another range, the next deletion would have missed them.
  expect(await sizeOf(session)).toBe(tables.length * rows);
  const count = async (from: DuckSession) => {
    let counted = 0;
    for (const table of tables)
      await from.scan("main", table, async (range) => {
        const [row] = await from.rows(`SELECT count(*)::VARCHAR AS n FROM ${table} WHERE ${range}`);
        counted += Number(row?.["n"]);
      });
    return counted;
  };
  expect(await count(session)).toBe(tables.length * (rows - 2 * Math.ceil(rows / 1000)));
  await copyDatabase(session, join(folder, "copy.duckdb"));
  session.close();
  const copy = await openDuckDb(join(folder, "copy.duckdb"), folder);
  expect(await sizeOf(copy)).toBe(await count(copy));
  copy.close();
});
