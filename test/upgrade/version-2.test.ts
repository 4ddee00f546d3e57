import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Client } from "pg";
import { expect, test } from "vitest";
import { openWorld, summaryOf } from "../nights/night.ts";
import { createDatabase, type TestDatabase } from "../support/fresh-database.ts";

/** Database and spool of version 2, after a complete night and one that was killed when its last answer was on disk. */
interface Recorded {
  readonly ddl: string;
  /** Statements for the input and the work tables of the killed run. */
  readonly tables: readonly string[];
  /** By quoted table. */
  readonly rows: Readonly<Record<string, readonly object[]>>;
  /** Last value, by sequence. */
  readonly sequences: Readonly<Record<string, number>>;
  /** Files in base64, by path below the data_dir. */
  readonly spool: Readonly<Record<string, string>>;
}

const recorded = JSON.parse(await readFile(new URL("version-2.json", import.meta.url), "utf8")) as Recorded;

async function restore(): Promise<TestDatabase> {
  const database = await createDatabase();
  const client = new Client({ connectionString: database.url });
  await client.connect();
  await client.query("SET client_min_messages = warning");
  for (const statement of [recorded.ddl, ...recorded.tables]) await client.query(statement);
  for (const [table, rows] of Object.entries(recorded.rows)) {
    await client.query(
      `INSERT INTO ${table} SELECT * FROM jsonb_populate_recordset(NULL::${table}, $1::jsonb) ON CONFLICT DO NOTHING`,
      [JSON.stringify(rows)],
    );
  }
  for (const [name, value] of Object.entries(recorded.sequences))
    await client.query(`SELECT setval('${name}', ${value})`);
  await client.end();
  return database;
}

/** The jobs of the recorded configuration. */
const jobs = `{ resolve: { type: resolve, input: customers }, validate: { type: validate_emails, input: customers },
  enrich: { type: enrich, input: customers, pid_from: resolve, valid_emails_from: validate, refresh_after: 90d,
    return_fields: [phones, full_name] } }`;

const present = "SELECT source_key, service_pid FROM enrichment WHERE is_present";

test("a warehouse of version 2 is upgraded: its answers, also those on disk, are kept, and nothing is sent", async () => {
  const world = await openWorld({ jobs }, await restore());
  for (const [path, content] of Object.entries(recorded.spool)) {
    const file = join(world.folder, "answers", path);
    await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    await writeFile(file, Buffer.from(content, "base64"), { mode: 0o600 });
  }
  await world.sql(`UPDATE warehouse_identity SET service_host = '${new URL(world.service.url).host}'`);
  // Bob has another name since; his answer and those of two new people are only on disk.
  expect(await world.lines(present)).toEqual([
    "1|p-ann",
    "4|p-cid",
    "5|p-dan",
    "6|p-eve",
    "7|p-ann",
    "9|p-bad",
  ]);

  await world.command(["migrate"]);
  const first = await world.night();
  expect(first.sent).toEqual({});
  expect(first.report?.jobs.map(summaryOf)).toEqual([
    "11 read, 11 unchanged",
    "10 read, 10 unchanged",
    "11 read, 8 unchanged, 3 duplicate",
  ]);
  expect(await world.lines(present)).toEqual([
    "10|p-fay",
    "11|p-gus",
    "1|p-ann",
    "2|p-bob",
    "4|p-cid",
    "5|p-dan",
    "6|p-eve",
    "7|p-ann",
    "9|p-bad",
  ]);
  const tables =
    "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^lookup_(state|work_|row_)'";
  expect(await world.lines(tables)).toEqual([]);

  const second = await world.night();
  expect(second.sent).toEqual({});
  expect(second.report?.jobs.map(summaryOf)).toEqual([
    "11 read, 11 unchanged",
    "10 read, 10 unchanged",
    "11 read, 11 unchanged",
  ]);
});
