import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, inject, onTestFinished, test, vi } from "vitest";
import { declaredCatalog, type Destination, withViews } from "../../src/publish/destination.ts";
import { publishDestination } from "../../src/jobs/publish/publish-destination.ts";
import { explainDuckDb } from "../../src/publish/duckdb/files.ts";
import { type DuckSession, openDuckDb } from "../../src/publish/duckdb/session.ts";
import { describeDestination } from "./destination-suite.ts";
import { openDuckDbContext, rowsOfFile } from "./duckdb-context.ts";
import { openSourceContext } from "./publication-context.ts";
import { batchAfter, publishRows, type TableRows, tableIn, writeFiles } from "./staged-files.ts";
import { inputViews, queryOf, shownRow, viewResults, viewRows } from "./view-rows.ts";

describeDestination("DuckDB", openDuckDbContext);

const catalog = withViews(declaredCatalog(null), inputViews);
const person = (pid: string, name: string) => ({
  service_pid: pid,
  full_name: name,
  _record_synced_at: "2026-01-01T00:00:00+00:00",
  _synced_at: "2026-01-01T00:00:00+00:00",
  _run_id: "r",
});
/** Change that replaces the rows of p1 by one. */
const changed = (row: Record<string, unknown>) => [
  { table: "person", keys: [{ service_pid: "p1" }], rows: [row] },
];
const personTable = () => tableIn(catalog, "person");
const keysOf = (destination: Destination, pid: string) =>
  writeFiles(destination, personTable(), "keys", [{ service_pid: pid }]);
const SECRET = "Xylophonia Quintessence-Vanderbilt";

const hasSecret = async (file: string) => (await readFile(file)).includes(SECRET);

/** Does work that takes more memory than a session begins with. */
const fill = (session: DuckSession) =>
  session.transaction(async () => {
    await session.run("CREATE TABLE wide (n BIGINT)");
    await session.run("INSERT INTO wide SELECT len(list(i)) FROM range(12_000_000) AS r(i)");
  });

async function openWide() {
  const folder = await mkdtemp(join(inject("runFolder"), "memory-"));
  const open = () => openDuckDb(join(folder, "wide.duckdb"), folder);
  return { session: await open(), open };
}

const FILLED = [{ rows: "12000000" }];

test("work that runs out of memory is repeated with more", async () => {
  const { session } = await openWide();
  await fill(session);
  expect(await session.rows("SELECT n::VARCHAR AS rows FROM wide")).toEqual(FILLED);
  session.close();
});

test("work that takes more memory than the container has fails with a remedy, and can be repeated elsewhere", async () => {
  const { session, open } = await openWide();
  const constrained = vi.spyOn(process, "constrainedMemory").mockReturnValue(100 * 1024 ** 2);
  onTestFinished(() => constrained.mockRestore());
  const error: unknown = await fill(session).catch((e: unknown) => e);
  session.close();
  expect(explainDuckDb(error, "local", "people.duckdb")).toMatchObject({ code: "destination_full" });
  constrained.mockRestore();
  const again = await open();
  await fill(again);
  expect(await again.rows("SELECT n::VARCHAR AS rows FROM wide")).toEqual(FILLED);
  again.close();
});

test("a log of many transactions is written into the file meanwhile, by none of their COMMITs", async () => {
  const folder = await mkdtemp(join(inject("runFolder"), "log-"));
  const file = join(folder, "many.duckdb");
  const session = await openDuckDb(file, folder);
  await session.transaction(() => session.run("CREATE TABLE many (t VARCHAR)"));
  const add = () => session.transaction(() => session.run("INSERT INTO many VALUES (repeat('x', 9000000))"));
  const logBytes = async () => (await stat(`${file}.wal`).catch(() => null))?.size ?? 0;
  await add();
  expect(await logBytes()).toBeGreaterThan(9_000_000);
  await add();
  expect(await logBytes()).toBe(0);
  session.close();
});

/** Catalog of a single table, which takes a tenth of the time. */
const people = declaredCatalog(["person"]);

describe("a DuckDB file", () => {
  let context: Awaited<ReturnType<typeof openDuckDbContext>>;
  let destination: Destination;
  let own = "";

  beforeEach(async () => {
    context = await openDuckDbContext();
    ({ destination } = context);
    own = join(context.folder, "own", "local.duckdb");
    await destination.migrate(people);
    await publish({ table: "person", replaces: "all", rows: [person("p1", SECRET)] });
    await destination.finish();
  });
  afterEach(() => context.close());

  const names = async () => (await rowsOfFile(context.path, "person")).map((row) => row["full_name"]);
  const publish = async (...rows: readonly TableRows[]) =>
    publishRows(destination, people, batchAfter(await destination.position()), rows);

  test("takes a row that needs more memory than usual", async () => {
    const large = "x".repeat(31 * 1024 * 1024);
    const added = { table: "person", keys: [{ service_pid: "p2" }], rows: [person("p2", large)] };
    expect(await publish(added)).toBe("committed");
    await destination.finish();
    const session = await openDuckDb(context.path, context.folder);
    const lengths = await session.rows(
      "SELECT length(full_name)::VARCHAR AS length FROM person_data.person ORDER BY service_pid",
    );
    session.close();
    expect(lengths).toEqual([{ length: String(SECRET.length) }, { length: String(large.length) }]);
  });

  test("has every digit of numbers, short and long", async () => {
    const numbers = ["0", "-1", "9999999999", "-999999999", "12345678901", "0.00000001", "-0.000000001"];
    const longest = "999999999999999999.99999999999999999999";
    const all = [...numbers, "9999999999.99999999", "-9999999999.99999999", "1.123456789", longest];
    const rows = all.map((estimated_income_min, n) => ({ ...person(`n${n}`, "N"), estimated_income_min }));
    await publish({ table: "person", replaces: "all", rows });
    await destination.finish();
    const read = await rowsOfFile(context.path, "person");
    const found = new Map(read.map((row) => [row["service_pid"], row["estimated_income_min"]]));
    expect(all.map((_, n) => found.get(`n${n}`))).toEqual(all);
  });

  test("can be read while a batch is applied, and keeps its readers", async () => {
    const reader = await openDuckDb(context.path, context.folder);
    await publish({ table: "person", keys: [{ service_pid: "p2" }], rows: [person("p2", "Bob")] });
    await destination.finish();
    const [seen] = await reader.rows("SELECT count(*)::VARCHAR AS rows FROM person_data.person");
    reader.close();
    expect(seen).toEqual({ rows: "1" });
    expect(await names()).toEqual([SECRET, "Bob"]);
  });

  test("and its working copy are readable by the owner only", async () => {
    for (const file of [context.path, own]) expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect((await stat(join(context.folder, "own"))).mode & 0o777).toBe(0o700);
  });

  test("holds no deleted value after an erasure, nor does the working copy", async () => {
    expect([await hasSecret(context.path), await hasSecret(own)]).toEqual([true, true]);
    const batch = batchAfter(await destination.position());
    await destination.stage(batch, await keysOf(destination, "p1"));
    const change = { table: personTable(), replaces: "keys" as const, hasRows: false };
    await destination.commit({ ...batch, changes: [change], erases: true });
    await destination.finish();
    expect([await hasSecret(context.path), await hasSecret(own)]).toEqual([false, false]);
    expect(await names()).toEqual([]);
    expect(await destination.position()).toEqual({ number: 2, id: batch.id });
  });

  test("is begun again after a first attempt that did not finish", async () => {
    await destination.close();
    await rm(join(context.folder, "own"), { recursive: true });
    await rm(context.path);
    destination = await context.reopen();
    await destination.migrate(people);
    const first = batchAfter(null);
    const loaded = await writeFiles(destination, personTable(), "rows", [person("p1", SECRET)], 1, "all");
    await destination.stage(first, loaded);
    await destination.close();
    expect(await hasSecret(`${own}.wal`)).toBe(true);
    destination = await context.reopen();
    await destination.migrate(people);
    const changed = [{ table: "person", replaces: "all" as const, rows: [person("p2", "Bob")] }];
    await publishRows(destination, people, { ...first, attempt: "second1" }, changed);
    await destination.finish();
    expect(await names()).toEqual(["Bob"]);
    expect([await hasSecret(context.path), await hasSecret(own)]).toEqual([false, false]);
  });

  test("holds nothing of an attempt that did not finish", async () => {
    const batch = batchAfter(await destination.position());
    const table = personTable();
    const loaded = await writeFiles(destination, table, "rows", [person("p1", SECRET)], 1, "all");
    await destination.stage(batch, loaded);
    await destination.close();
    destination = await context.reopen();
    const changed = [{ table: "person", replaces: "all" as const, rows: [person("p2", "Bob")] }];
    expect(await publishRows(destination, people, { ...batch, attempt: "second1" }, changed)).toBe(
      "committed",
    );
    await destination.finish();
    expect(await names()).toEqual(["Bob"]);
    const session = await openDuckDb(context.path, context.folder);
    const tables = await session.rows("SELECT table_name FROM duckdb_tables()");
    session.close();
    const declared = people.tables.map(({ name }) => name);
    expect(new Set(tables.map((row) => row["table_name"]))).toEqual(
      new Set([...declared, "state", "checkpoint"]),
    );
  });

  test("is rewritten when deleted rows take a third of it", async () => {
    const sizes: number[] = [];
    for (let round = 0; round < 8; round++) {
      const name = randomBytes(200_000).toString("hex");
      await publish(...changed(person("p1", name)));
      await destination.finish();
      expect(await names()).toEqual([name]);
      sizes.push((await stat(context.path)).size);
    }
    expect(Math.max(...sizes)).toBeLessThan(3_500_000);
  });

  test("leaves nothing of an interrupted rewriting", async () => {
    const left = [`${own}.new`, `${own}.new.wal`];
    for (const file of left) await writeFile(file, SECRET);
    await destination.restart();
    expect(await Promise.all(left.map((file) => stat(file).catch(() => null)))).toEqual([null, null]);
  });

  test("takes no other batch after one that was applied in part", async () => {
    const follows = await destination.position();
    const partly = batchAfter(follows);
    const wrong = { ...person("p1", "Ada"), dob: "never" };
    await expect(publishRows(destination, people, partly, changed(wrong))).rejects.toThrow("never");
    await destination.close();
    destination = await context.reopen();
    const other = batchAfter(follows);
    expect(await publishRows(destination, people, other, changed(person("p1", "Bob")))).toBe("refused");
    const again = { ...partly, attempt: "again1" };
    expect(await publishRows(destination, people, again, changed(person("p1", "Ada")))).toBe("committed");
    expect(await publishRows(destination, people, batchAfter(partly), changed(person("p1", "Eve")))).toBe(
      "committed",
    );
    await destination.finish();
    expect(await names()).toEqual(["Eve"]);
  });

  test("takes the place of a working copy that was lost", async () => {
    const position = await destination.position();
    await destination.close();
    await rm(join(context.folder, "own"), { recursive: true });
    destination = await context.reopen();
    expect(await destination.position()).toEqual(position);
    expect(await names()).toEqual([SECRET]);
  });

  test("is written again where it was removed", async () => {
    await rm(context.path);
    await destination.finish();
    expect(await names()).toEqual([SECRET]);
  });

  test("of another owner is refused and left unchanged", async () => {
    await destination.close();
    await rm(join(context.folder, "own"), { recursive: true });
    await rm(context.path);
    const foreign = await openDuckDb(context.path, context.folder);
    await foreign.run("CREATE TABLE theirs AS SELECT 1 AS one");
    foreign.close();
    const before = await readFile(context.path);
    destination = await context.reopen();
    const error = destination.explain(await destination.position().catch((e: unknown) => e));
    expect(error).toMatchObject({ name: "FixConfigurationError", code: "destination_refused" });
    expect(await readFile(context.path)).toEqual(before);
    await writeFile(context.path, "not a database at all");
    expect(await destination.check(people)).toMatchObject([{ ok: false }]);
  });

  test("is published by one process at a time, also after that has replaced it", async () => {
    await destination.close();
    await rm(context.path);
    const program = fileURLToPath(new URL("hold-duckdb.ts", import.meta.url));
    const holder = spawn(process.execPath, [program, context.path, join(context.folder, "own")], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    try {
      await once(holder.stdout, "data");
      destination = await context.reopen();
      const error = destination.explain(await destination.position().catch((e: unknown) => e));
      expect(error).toMatchObject({ name: "JobLockedError" });
    } finally {
      holder.stdin.end();
      await once(holder, "exit");
    }
    expect(await destination.position()).toMatchObject({ number: 1 });
  });

  test("has every view with its rows, and comments with the PII class", async () => {
    await destination.migrate(catalog);
    const batch = batchAfter(await destination.position());
    expect(await publishRows(destination, catalog, batch, viewRows)).toBe("committed");
    await destination.finish();
    await destination.close();
    const session = await openDuckDb(context.path, context.folder);
    const commentOf = async (table: string, column: string) => {
      const ofColumn = `table_name = '${table}' AND column_name = '${column}'`;
      const [found] = await session.rows(`SELECT comment FROM duckdb_columns() WHERE ${ofColumn}`);
      return found?.["comment"];
    };
    try {
      for (const { name, schema } of catalog.views) {
        await session.rows(
          `SELECT count(*)::VARCHAR AS rows FROM person_data${schema === "ops" ? "_ops" : ""}.${name}`,
        );
      }
      expect(await commentOf("person", "full_name")).toMatch(/pii: direct$/u);
      expect(await commentOf("person_best_phone", "phone_number")).toBe(
        "Phone number, as received. pii: direct",
      );
      for (const [query, expected] of viewResults) {
        const rows = await session.rows(
          `SELECT COLUMNS(*)::VARCHAR FROM (${queryOf(query, (view) => `person_data.${view}`)})`,
        );
        expect([query, rows.map(shownRow)]).toEqual([query, expected]);
      }
    } finally {
      session.close();
    }
  });

  test("fails without a value of a person in the message", async () => {
    const wrong = changed({ ...person("p1", SECRET), dob: SECRET });
    const error = destination.explain(await publish(...wrong).catch((e: unknown) => e));
    expect(error).toMatchObject({ name: "StopRunError", code: "destination_failed" });
    expect(JSON.stringify([String(error), error instanceof Error && error.cause])).not.toContain(
      "Quintessence",
    );
  });
});

test("--full begins with a new working file, whatever the old one is like, and is resumed after a crash", async () => {
  const source = await openSourceContext();
  const context = await openDuckDbContext();
  const { destination } = context;
  const names = async () => (await rowsOfFile(context.path, "person")).map((row) => row["full_name"]);
  try {
    await source.sql("INSERT INTO person_data.person (service_pid, full_name) VALUES ('p1', 'Ada')");
    const publication = await source.publicationTo(destination, ["person"]);
    await publishDestination(publication);
    await destination.close();
    await writeFile(join(context.folder, "own", "local.duckdb"), "damaged");
    await source.sql("UPDATE person_data.person SET full_name = 'Ada L.'");
    const crashed = { ...destination, commit: () => Promise.reject(new Error("killed")) };
    await expect(
      publishDestination({ ...publication, destination: crashed }, { full: true }),
    ).rejects.toThrow("killed");
    expect(await names()).toEqual(["Ada"]);
    expect(await publishDestination(publication)).toMatchObject({ batches: 2 });
    expect(await names()).toEqual(["Ada L."]);
  } finally {
    await context.close();
    await source.close();
  }
});

/** Texts that COPY escapes, or that end or begin a line or a file. */
const texts = [
  "\uFEFFbom",
  "",
  "\\N",
  "\\\\n",
  "a\tb\nc\rd\be\ff\vg",
  "\n",
  "\\.",
  "end\\",
  "\"'{},",
  "\u0001\u007f é 🎉",
  "\\x41",
];

test("--verify finds every text of Postgres unchanged, and a value that differs under an equal count and time", async () => {
  const source = await openSourceContext();
  const context = await openDuckDbContext();
  try {
    await source.sql(
      `INSERT INTO person_data.person (service_pid, full_name, dob, estimated_income_min, is_retired, _extra)
       VALUES ('p1', 'Ada', '1815-12-10', 100, true, '{"b": [1, "é"], "a": 1.50}'), ('p2', NULL, NULL, 0.5, false, NULL)`,
    );
    await source.sql(
      `INSERT INTO person_data.person_education_experience (service_pid, position, education_majors, education_minors)
       VALUES ('p1', 0, ARRAY['a', 'b'], '{}')`,
    );
    const copied = "SELECT t, t, jsonb_build_object('a', t) FROM unnest($1::text[]) AS u(t)";
    await source.sql(`INSERT INTO person_data.person (service_pid, full_name, _extra) ${copied}`, [texts]);
    await source.sql(
      `INSERT INTO person_data.person_education_experience (service_pid, position, education_majors, education_minors)
       SELECT t, 0, ARRAY[t, 'b'], '{}' FROM unnest($1::text[]) AS u(t)`,
      [texts],
    );
    const tables = ["person", "person_education_experience"];
    const publication = await source.publicationTo(context.destination, tables);
    await publishDestination(publication);
    expect(await publishDestination(publication, { verify: true })).toMatchObject({ tablesDiffering: [] });
    // Keys are texts, too.
    await source.sql("DELETE FROM person_data.person WHERE service_pid = ANY($1)", [texts]);
    await publishDestination(publication);
    expect(await rowsOfFile(context.path, "person")).toHaveLength(2);
    await context.destination.close();
    const session = await openDuckDb(join(context.folder, "own", "local.duckdb"), context.folder);
    await session.run("UPDATE person_data.person SET full_name = 'ada' WHERE service_pid = 'p1'");
    session.close();
    expect(await publishDestination(publication, { verify: true })).toMatchObject({
      tablesDiffering: ["person"],
    });
    expect((await rowsOfFile(context.path, "person"))[0]).toMatchObject({ full_name: "Ada" });
  } finally {
    await context.close();
    await source.close();
  }
});
