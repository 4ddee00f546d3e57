import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { expect, test } from "vitest";
import type { Publication } from "../../src/jobs/publish/publication.ts";
import { publishDestination } from "../../src/jobs/publish/publish-destination.ts";
import { JobLockedError } from "../../src/errors.ts";
import { type Random, seededRandom } from "../support/seeded-random.ts";
import { createMemoryDestination, type MemoryDestination } from "./memory-destination.ts";
import { openDefaultDb } from "../load/postgres-context.ts";
import { openSourceContext, type SourceContext } from "./publication-context.ts";

const DURATION_MS = 20_000;
const KEYS = 200;

class Crash extends Error {}

/** Counts of events, so that a simulation without crashes or refusals fails. */
interface Counts {
  transactions: number;
  rolledBack: number;
  crashes: number;
  overtaken: number;
  locked: number;
}

/** Writes random transactions until stopped; every tenth is rolled back. */
async function write(url: string, random: Random, counts: Counts, until: () => boolean): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query("SET person_etl.run_id = 'simulated'");
  try {
    while (!until()) {
      try {
        await client.query("BEGIN");
        for (let left = 1 + random.below(4); left > 0; left -= 1) await change(client, random);
        await client.query(random.chance(0.1) ? "ROLLBACK" : "COMMIT");
        counts.transactions += 1;
      } catch {
        // Deadlocks and unique violations of random writers.
        await client.query("ROLLBACK");
        counts.rolledBack += 1;
      }
    }
  } finally {
    await client.end();
  }
}

async function change(client: Client, random: Random): Promise<void> {
  const pid = `p${random.below(KEYS)}`;
  const kind = random.next();
  if (kind < 0.55) {
    await client.query(
      `INSERT INTO person_data.person (service_pid, age) VALUES ($1, $2) ON CONFLICT (service_pid)
       DO UPDATE SET age = excluded.age, _synced_at = clock_timestamp()`,
      [pid, random.below(1_000_000)],
    );
    await client.query("DELETE FROM person_data.person_phone WHERE service_pid = $1", [pid]);
    await client.query(
      `INSERT INTO person_data.person_phone (service_pid, position, phone_number)
       SELECT $1, i, $2 FROM generate_series(1, $3::int) AS i`,
      [pid, String(random.below(1_000_000)), random.below(4)],
    );
  } else if (kind < 0.8) {
    await client.query("DELETE FROM person_data.person WHERE service_pid = $1", [pid]);
    await client.query("DELETE FROM person_data.person_phone WHERE service_pid = $1", [pid]);
  } else if (kind < 0.99) {
    await client.query(
      `INSERT INTO person_data.input_email (source, source_key, position, email_address) VALUES ('s', $1, $2, $3)
       ON CONFLICT (source, source_key, position) DO UPDATE SET email_address = excluded.email_address, _synced_at = clock_timestamp()`,
      [pid, random.below(2), String(random.below(1_000_000))],
    );
  } else await client.query("TRUNCATE person_data.input_email");
  if (random.chance(0.3)) await delay(random.below(50));
}

/** Publishes until stopped; each step may crash, and some wait until another publisher was faster. */
async function publish(
  publication: Publication,
  random: Random,
  counts: Counts,
  until: () => boolean,
): Promise<void> {
  const { destination } = publication;
  const db: Publication["db"] = {
    ...publication.db,
    snapshot: (work) =>
      publication.db.snapshot(async (session, attempt) => {
        const result = await work(session, attempt);
        if (random.chance(0.05)) throw new Crash();
        return result;
      }),
  };
  const unreliable: Publication = {
    ...publication,
    db,
    destination: {
      ...destination,
      async commit(batch) {
        if (random.chance(0.1)) throw new Crash();
        if (random.chance(0.15)) await delay(random.below(300));
        const outcome = await destination.commit(batch);
        if (outcome !== "committed") counts.overtaken += 1;
        if (random.chance(0.1)) throw new Crash();
        return outcome;
      },
    },
  };
  while (!until()) {
    try {
      await publishDestination(unreliable);
    } catch (error) {
      if (error instanceof JobLockedError) counts.locked += 1;
      else if (error instanceof Crash) counts.crashes += 1;
      else throw error;
    }
  }
}

function sorted(rows: readonly object[]): readonly string[] {
  return rows.map((row) => JSON.stringify(row)).toSorted((a, b) => (a < b ? -1 : 1));
}

async function expectEqual(
  source: SourceContext,
  target: MemoryDestination,
  table: string,
  columns: readonly string[],
): Promise<void> {
  const there = [...target.rows(table).values()].map((row) =>
    Object.fromEntries(columns.map((column) => [column, row[column]])),
  );
  const here = await source.sql(
    `SELECT json_build_object(${columns.map((column) => `'${column}', ${column}`).join(", ")})::text AS row FROM person_data.${table}`,
  );
  expect(sorted(there)).toEqual(sorted(here.map(({ row }) => JSON.parse(row ?? ""))));
}

test("two crashing publishers and random writers leave the destination equal to Postgres", async () => {
  const source = await openSourceContext();
  const counts: Counts = { transactions: 0, rolledBack: 0, crashes: 0, overtaken: 0, locked: 0 };
  const target = createMemoryDestination("memory", 150);
  const databases = [openDefaultDb(source.context.url), openDefaultDb(source.context.url)];
  try {
    const publication = await source.publicationTo(target);
    await publishDestination(publication);
    const end = Date.now() + DURATION_MS;
    const isOver = () => Date.now() > end;
    const done = await Promise.allSettled([
      ...[1, 2, 3].map((seed) => write(source.context.url, seededRandom(seed), counts, isOver)),
      ...databases.map(async (db, index) => {
        const own = { ...(await source.publicationTo(target)), db };
        return publish(own, seededRandom(100 + index), counts, isOver);
      }),
    ]);
    expect(done.filter(({ status }) => status === "rejected")).toEqual([]);
    expect(await publishDestination(publication, { verify: true })).toMatchObject({ tablesDiffering: [] });
    await expectEqual(source, target, "person", ["service_pid", "age"]);
    await expectEqual(source, target, "person_phone", ["service_pid", "position", "phone_number"]);
    await expectEqual(source, target, "input_email", ["source_key", "position", "email_address"]);
    expect(counts.transactions).toBeGreaterThan(200);
    expect(counts.crashes).toBeGreaterThan(20);
    expect(counts.overtaken).toBeGreaterThan(0);
  } finally {
    await Promise.all(databases.map((db) => db.close()));
    await source.close();
  }
});
