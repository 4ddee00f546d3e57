import { readdir } from "node:fs/promises";
import { sql } from "kysely";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Publication } from "../../src/jobs/publish/publication.ts";
import { publishDestination } from "../../src/jobs/publish/publish-destination.ts";
import { dropDestination } from "../../src/jobs/publish/publisher.ts";
import { migrate } from "../../src/load/db/migrate.ts";
import { followTable } from "../../src/load/publication/registration.ts";
import { completeErasures } from "../../src/load/erasure/requests.ts";
import { catalogOf } from "../../src/publish/destination.ts";
import { createMemoryDestination, type MemoryDestination } from "./memory-destination.ts";
import { openSourceContext, type SourceContext } from "./publication-context.ts";

const insertPerson = `INSERT INTO person_data.person (service_pid, full_name) VALUES ($1, $2)
  ON CONFLICT (service_pid) DO UPDATE SET full_name = excluded.full_name, _synced_at = now(), _record_synced_at = now()`;
const insertEmail = `INSERT INTO person_data.person_email (service_pid, email_type, position, email_address)
  VALUES ($1, 'personal', $2, $3)`;

const rejection = (work: Promise<unknown>) =>
  work.then(
    () => null,
    (error: unknown) => error,
  );

/** Tables of most tests; publishing all takes four times as long. */
const TABLES = ["person", "person_email", "person_address", "match_history", "segment"];

describe("a publication", () => {
  let source: SourceContext;
  let target: MemoryDestination;
  let publication: Publication;

  const values = (table: string, column: string) =>
    [...target.rows(table).values()].map((row) => String(row[column])).toSorted((a, b) => a.localeCompare(b));
  const view = async () => (await source.sql("SELECT * FROM person_data_ops.publication"))[0];
  const lag = async () => Number((await view())?.["lag_seconds"]);
  const waiting = async () => Number((await view())?.["keys_waiting"]);

  beforeEach(async () => {
    source = await openSourceContext();
    target = createMemoryDestination();
    publication = await source.publicationTo(target, TABLES);
  });
  afterEach(() => source.close());

  test("starts with every table as a whole, then follows each change with its children, and publishes nothing without one", async () => {
    await source.sql(insertPerson, ["p1", "Ada"]);
    expect(await source.sql("SELECT FROM pg_trigger WHERE tgname LIKE 'publish%'")).toEqual([]);
    await source.sql(insertEmail, ["p1", 0, "ada@example.com"]);
    await publishDestination(publication);
    expect(values("person", "full_name")).toEqual(["Ada"]);
    expect(values("person_email", "email_address")).toEqual(["ada@example.com"]);

    await source.sql(insertPerson, ["p2", "Bob"]);
    await source.sql("BEGIN");
    await source.sql("DELETE FROM person_data.person_email");
    await source.sql(insertEmail, ["p1", 0, "ada@example.net"]);
    await source.sql(insertPerson, ["p1", "Ada L."]);
    await source.sql("COMMIT");
    expect(await waiting()).toBe(4);
    expect(await publishDestination(publication)).toMatchObject({ batches: 1, rows: 3 });
    expect(values("person", "full_name")).toEqual(["Ada L.", "Bob"]);
    expect(values("person_email", "email_address")).toEqual(["ada@example.net"]);
    expect(await view()).toMatchObject({ keys_waiting: "0", batch_number: "3", lag_seconds: "0" });
    const nothing = { destination: "memory", batches: 0, rows: 0, tablesDiffering: null };
    expect(await publishDestination(publication)).toEqual(nothing);
  });

  test("lags by the age of the oldest change that readers don't see, until its release", async () => {
    const fails = { ...target, finish: () => Promise.reject(new Error("disk full")) };
    const failing = { ...publication, destination: fails };
    await source.sql(insertPerson, ["p1", "Ada"]);
    expect(await rejection(publishDestination(failing))).toMatchObject({ message: "disk full" });
    expect([await waiting(), await lag()]).toEqual([0, expect.toSatisfy((seconds: number) => seconds > 0)]);
    await publishDestination(publication);
    expect(await lag()).toBe(0);

    await source.sql(
      "UPDATE person_data_state.destination SET last_published_at = now() - interval '7 days'",
    );
    await source.sql(insertPerson, ["p2", "Bob"]);
    await source.sql("UPDATE person_data_state.dirty_key SET marked_at = now() - interval '10 minutes'");
    await rejection(publishDestination(failing));
    await source.sql(insertPerson, ["p3", "Cid"]);
    await rejection(publishDestination(failing));
    expect(await waiting()).toBe(0);
    expect(await lag()).toBeGreaterThanOrEqual(600);
    expect(await lag()).toBeLessThan(700);
    await publishDestination(publication);
    expect(await lag()).toBe(0);

    await source.sql("UPDATE person_data.person SET full_name = 'Eve'");
    await source.sql("UPDATE person_data_state.dirty_key SET marked_at = now() - interval '10 minutes'");
    await rejection(publishDestination(failing, { full: true }));
    expect(await lag()).toBeGreaterThanOrEqual(600);
  });

  test("publishes only the tables in which something changed", async () => {
    await source.sql(insertPerson, ["p1", "Ada"]);
    await source.sql(insertPerson, ["p2", "Bob"]);
    for (const [pid, position] of [
      ["p1", 0],
      ["p1", 1],
      ["p2", 0],
    ] as const) {
      await source.sql(insertEmail, [pid, position, `${pid}.${position}@example.com`]);
    }
    await publishDestination(publication);
    const tablesOf = async (text: string) => {
      const before = target.committed.length;
      await source.sql(text);
      const { rows } = await publishDestination(publication);
      return [target.committed.slice(before).map(({ tables }) => tables), rows];
    };
    expect(
      await tablesOf("UPDATE person_data.person SET full_name = 'Eve' WHERE service_pid = 'p1'"),
    ).toEqual([[["person"]], 1]);
    const byHand =
      "UPDATE person_data.person_email SET email_address = 'new@example.com' WHERE email_address LIKE 'p1.0%'";
    // A list is published as a whole.
    expect(await tablesOf(byHand)).toEqual([[["person_email"]], 2]);
    expect(
      await tablesOf(
        "UPDATE person_data.person_email SET service_pid = 'p3' WHERE email_address LIKE 'p1.1%'",
      ),
    ).toEqual([[["person_email"]], 2]);
    expect(await tablesOf("DELETE FROM person_data.person_email WHERE service_pid = 'p2'")).toEqual([
      [["person_email"]],
      0,
    ]);
    expect(values("person_email", "email_address")).toEqual(["new@example.com", "p1.1@example.com"]);
    expect(await publishDestination(publication, { verify: true })).toMatchObject({ tablesDiffering: [] });
  });

  test("follows lists again that an earlier version followed by their person only", async () => {
    await source.sql(insertPerson, ["p1", "Ada"]);
    await source.sql(insertEmail, ["p1", 0, "ada@example.com"]);
    await publishDestination(publication);
    const triggers = await source.sql(
      "SELECT tgname FROM pg_trigger WHERE tgrelid = 'person_data.person_email'::regclass AND tgname ~ '_(insert|update|delete|key)$'",
    );
    expect(triggers).toHaveLength(4);
    for (const { tgname } of triggers)
      await source.sql(`DROP TRIGGER "${tgname}" ON person_data.person_email`);
    await source.sql("UPDATE person_data.person_email SET email_address = 'new@example.com'");
    const before = target.committed.length;
    await publishDestination(publication);
    expect(values("person_email", "email_address")).toEqual(["new@example.com"]);
    expect(target.committed.slice(before).map(({ tables }) => tables)).toEqual([["person_email"], []]);
    await source.sql("DELETE FROM person_data.person_email");
    await publishDestination(publication);
    expect(values("person_email", "email_address")).toEqual([]);
  });

  test("an earlier version publishes nothing after the upgrade, which publishes the batch that it had claimed", async () => {
    await publishDestination(publication);
    await source.sql(insertPerson, ["p1", "Ada"]);
    await source.sql(`SET search_path = person_data_state;
      ALTER TABLE claimed_key RENAME TO publication_batch;
      ALTER TABLE followed_table RENAME TO destination_table;
      DELETE FROM schema_migration WHERE name LIKE '0009%';
      WITH taken AS (DELETE FROM dirty_key RETURNING *) INSERT INTO publication_batch SELECT * FROM taken;
      UPDATE destination SET claimed = claimed + 1, claimed_id = gen_random_uuid()`);
    // As earlier versions read the tables that they follow, claimed a batch, repeated and confirmed it.
    const earlier = [
      "SELECT table_name, columns FROM destination_table WHERE destination = 'memory'",
      "INSERT INTO publication_batch (destination, table_name, key, marked_at) SELECT 'memory', table_name, key, marked_at FROM dirty_key",
      "SELECT DISTINCT table_name FROM publication_batch WHERE destination = 'memory'",
      "DELETE FROM publication_batch WHERE destination = 'memory'",
    ];
    for (const text of earlier) await source.sql(`BEGIN; ${text}; ROLLBACK`);
    await migrate(source.db);
    await source.sql(insertEmail, ["p1", 0, "ada@example.com"]);
    for (const text of earlier) {
      expect(await rejection(source.sql(text))).toMatchObject({ code: "42P01" });
    }
    expect(await publishDestination(publication)).toMatchObject({ batches: 2, rows: 2 });
    expect(values("person_email", "email_address")).toEqual(["ada@example.com"]);
    expect(await waiting()).toBe(0);
  });

  test("starting to follow a table blocks no readers of it, and publishing it with a new column no writers", async () => {
    const [table] = catalogOf(["person"]).tables;
    if (table === undefined) throw new Error("no table");
    const follow = async () =>
      source.db.transaction(async (session) => {
        await followTable(session, "memory", table);
        return session.pluck<string>(
          sql`SELECT mode FROM pg_catalog.pg_locks WHERE pid = pg_backend_pid()
            AND relation = 'person_data.person'::regclass AND mode <> 'AccessShareLock' ORDER BY 1`,
        );
      });
    expect(await follow()).toEqual(["ShareRowExclusiveLock"]);
    expect(await follow()).toEqual([]);
    const [{ tgname } = {}] = await source.sql(
      "SELECT tgname FROM pg_trigger WHERE tgname LIKE 'publish%_delete'",
    );
    await source.sql(`DROP TRIGGER "${tgname}" ON person_data.person`);
    expect(await follow()).toEqual(["ShareRowExclusiveLock"]);
    await source.sql(insertPerson, ["p1", "Ada"]);
    await publishDestination(publication);
    await source.sql("DELETE FROM person_data.person");
    await publishDestination(publication);
    expect(values("person", "full_name")).toEqual([]);
  });

  test("deletes rows deleted by any statement, and follows changed keys", async () => {
    for (const pid of ["p1", "p2", "p3", "p4"]) await source.sql(insertPerson, [pid, pid.toUpperCase()]);
    await source.sql(insertEmail, ["p1", 0, "one@example.com"]);
    await publishDestination(publication);
    await source.sql(
      "DELETE FROM person_data.person_email; DELETE FROM person_data.person WHERE service_pid = 'p1'",
    );
    await source.sql("UPDATE person_data.person SET service_pid = 'p9' WHERE service_pid = 'p2'");
    await source.sql(
      "WITH gone AS (DELETE FROM person_data.person WHERE service_pid = 'p3' RETURNING *) SELECT count(*) FROM gone",
    );
    await publishDestination(publication);
    expect(values("person", "service_pid")).toEqual(["p4", "p9"]);
    expect(values("person_email", "email_address")).toEqual([]);
  });

  test("publishes a truncated table as a whole, roots and children", async () => {
    await source.sql(insertPerson, ["p1", "Ada"]);
    await source.sql(insertEmail, ["p1", 0, "ada@example.com"]);
    await publishDestination(publication);
    await source.sql("TRUNCATE person_data.person CASCADE");
    await source.sql(insertPerson, ["p2", "Bob"]);
    await publishDestination(publication);
    expect(values("person", "full_name")).toEqual(["Bob"]);
    expect(values("person_email", "email_address")).toEqual([]);
  });

  test("follows writers with other settings and without privileges on the queue", async () => {
    const key = ["job", "source", "Key ' \" \\ ü", "2026-01-02 03:04:05.678901+00"];
    await publishDestination(publication);
    await source.sql(
      "CREATE ROLE publication_writer; GRANT USAGE ON SCHEMA person_data TO publication_writer; GRANT SELECT, INSERT, DELETE ON person_data.match_history TO publication_writer",
    );
    await source.sql(
      "SET ROLE publication_writer; SET TimeZone = 'Asia/Kathmandu'; SET DateStyle = 'SQL, DMY'; SET search_path = pg_temp",
    );
    await source.sql(
      "INSERT INTO person_data.match_history (job, source, source_key, valid_from) VALUES ($1, $2, $3, $4)",
      key,
    );
    await publishDestination(publication);
    expect([...target.rows("match_history").values()]).toMatchObject([
      { source_key: key[2], valid_from: "2026-01-02T03:04:05.678901+00:00" },
    ]);
    await source.sql("DELETE FROM person_data.match_history");
    await source.sql(
      "RESET ROLE; SET TimeZone = 'UTC'; RESET DateStyle; DROP OWNED BY publication_writer; DROP ROLE publication_writer",
    );
    await publishDestination(publication);
    expect(target.rows("match_history").size).toBe(0);
  });

  test("sees a writer whose snapshot is older than the destination", async () => {
    await source.sql("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await source.sql("SELECT 1 FROM person_data.person");
    await publishDestination(publication);
    await source.sql(insertPerson, ["p1", "Late"]);
    await source.sql("COMMIT");
    await publishDestination(publication);
    expect(values("person", "full_name")).toEqual(["Late"]);
  });

  test("publishes what no other engine can hold as null, or as the nearest value where null is not allowed", async () => {
    await source.sql(insertPerson, ["p1", "Ada"]);
    await source.sql("UPDATE person_data.person SET dob = 'infinity'");
    await source.sql(
      `INSERT INTO person_data.person_address (service_pid, position, purchase_price, sqft, num_beds) VALUES ('p1', 0, 'NaN', 1e30, 2.50)`,
    );
    await publishDestination(publication);
    await source.sql(
      `UPDATE person_data.person SET _synced_at = 'infinity', _record_synced_at = '0044-03-15 12:00:00+00 BC'`,
    );
    await source.sql(
      `INSERT INTO person_data.person_education_experience (service_pid, position, education_majors, education_minors)
         VALUES ('p1', 0, '{Music,NULL,"NULL"}', '{{a,b},{c,NULL}}')`,
    );
    const listed = catalogOf([...TABLES, "person_education_experience"]);
    await publishDestination({ ...publication, catalog: listed });
    expect([...target.rows("person").values()]).toMatchObject([
      {
        dob: null,
        _synced_at: "9999-12-31T23:59:59.999999+00:00",
        _record_synced_at: "0001-01-01T00:00:00+00:00",
      },
    ]);
    expect([...target.rows("person_education_experience").values()]).toMatchObject([
      { education_majors: ["Music", "NULL"], education_minors: ["a", "b", "c"] },
    ]);
    expect(await publishDestination({ ...publication, catalog: listed }, { verify: true })).toMatchObject({
      tablesDiffering: [],
    });
    expect([...target.rows("person_address").values()]).toMatchObject([
      { purchase_price: null, sqft: null, num_beds: "2.5" },
    ]);
  });

  test("repeats a batch whose confirmation was lost, once", async () => {
    await publishDestination(publication);
    await source.sql(insertPerson, ["p1", "Ada"]);
    target.onStep = (step) => {
      if (step === "committed") throw new Error("crash");
    };
    expect(await rejection(publishDestination(publication))).toMatchObject({ message: "crash" });
    target.onStep = () => {};
    await source.sql(insertPerson, ["p1", "Ada L."]);
    expect(await waiting()).toBe(2);
    await publishDestination(publication);
    expect(values("person", "full_name")).toEqual(["Ada L."]);
    expect(target.committed.map(({ number }) => number)).toEqual([1, 2, 3, 4]);
  });

  /** Starts a publication that waits once at a step of its batch; returns how to resume it. */
  async function stallAt(step: "staged" | "committed") {
    let stalls = true;
    const { promise: stalled, resolve } = Promise.withResolvers<void>();
    target.onStep = async (reached) => {
      if (reached !== step || !stalls) return;
      stalls = false;
      await stalled;
    };
    const stale = publishDestination(publication);
    await expect.poll(() => stalls).toBe(false);
    return async () => {
      resolve();
      await stale;
    };
  }

  test("a stale publisher can't bring an erased person back", async () => {
    await publishDestination(publication);
    await source.sql(insertPerson, ["p1", "Erased"]);
    const resume = await stallAt("staged");
    const other = await source.publicationTo(target, TABLES);
    await source.sql("DELETE FROM person_data.person");
    await publishDestination(other);
    await publishDestination(other);
    expect(values("person", "full_name")).toEqual([]);
    await resume();
    expect(values("person", "full_name")).toEqual([]);
    await publishDestination(publication, { verify: true });
  });

  test("a stale publisher confirms no batch but its own", async () => {
    await publishDestination(publication);
    await source.sql(insertPerson, ["p1", "Ada"]);
    const resume = await stallAt("committed");
    const other = await source.publicationTo(target, TABLES);
    await publishDestination(other);
    await source.sql(insertPerson, ["p2", "Bob"]);
    target.onStep = (step) => {
      if (step === "staged") throw new Error("crash");
    };
    expect(await rejection(publishDestination(other))).toMatchObject({ message: "crash" });
    target.onStep = () => {};
    await resume();
    await publishDestination(publication);
    expect(values("person", "full_name")).toEqual(["Ada", "Bob"]);
  });

  test("refuses a destination that was restored from a backup, until everything is published again", async () => {
    await source.sql(insertPerson, ["p1", "Ada"]);
    await publishDestination(publication);
    const restore = target.snapshot();
    await source.sql(insertPerson, ["p2", "Bob"]);
    await publishDestination(publication);
    restore();
    expect(await rejection(publishDestination(publication))).toMatchObject({
      name: "LimitReachedError",
      code: "publication_refused",
    });
    await publishDestination(publication, { full: true });
    expect(values("person", "full_name")).toEqual(["Ada", "Bob"]);
  });

  test("refuses to publish from a Postgres that was restored by one batch", async () => {
    await publishDestination(publication);
    const saved = await source.sql(
      "SELECT claimed, claimed_id, confirmed, confirmed_id FROM person_data_state.destination",
    );
    await source.sql(insertPerson, ["p1", "Lost"]);
    await publishDestination(publication);
    await source.sql(
      `BEGIN; DELETE FROM person_data.person; DELETE FROM person_data_state.dirty_key; COMMIT`,
    );
    const { claimed, claimed_id: claimedId, confirmed, confirmed_id: confirmedId } = saved[0] ?? {};
    await source.sql(
      "UPDATE person_data_state.destination SET claimed = $1, claimed_id = $2, confirmed = $3, confirmed_id = $4",
      [claimed, claimedId, confirmed, confirmedId],
    );
    await source.sql(insertPerson, ["p2", "New"]);
    expect(await rejection(publishDestination(publication))).toMatchObject({ code: "publication_refused" });
    expect(values("person", "full_name")).toEqual(["Lost"]);
    await publishDestination(publication, { full: true });
    expect(values("person", "full_name")).toEqual(["New"]);
  });

  test("refuses the destination of another configuration", async () => {
    await source.sql(insertPerson, ["p1", "Ada"]);
    await publishDestination(publication);
    const other = await openSourceContext();
    try {
      let migrations = 0;
      const migrate = () => {
        migrations += 1;
        return Promise.resolve();
      };
      const theirs = { ...(await other.publicationTo(target, TABLES)), destination: { ...target, migrate } };
      expect(await rejection(publishDestination(theirs))).toMatchObject({ code: "publication_refused" });
      expect([migrations, values("person", "full_name")]).toEqual([0, ["Ada"]]);
      await publishDestination(theirs, { full: true });
      expect(values("person", "full_name")).toEqual([]);
      await source.sql(insertPerson, ["p2", "Bob"]);
      expect(await rejection(publishDestination(publication))).toMatchObject({ code: "publication_refused" });
    } finally {
      await other.close();
    }
  });

  test("finds and repairs a table whose changes were not recorded", async () => {
    await source.sql(insertPerson, ["p1", "Ada"]);
    await source.sql(insertEmail, ["p1", 0, "ada@example.com"]);
    await publishDestination(publication);
    await source.sql(
      "UPDATE person_data.person_email SET email_address = 'new@example.com'; DELETE FROM person_data_state.dirty_key",
    );
    expect(await waiting()).toBe(0);
    expect(await publishDestination(publication, { verify: true })).toMatchObject({
      tablesDiffering: ["person_email"],
    });
    expect(values("person_email", "email_address")).toEqual(["new@example.com"]);
    expect(await view()).toMatchObject({ tables_differing: "{}" });
    expect(await publishDestination(publication, { verify: true })).toMatchObject({ tablesDiffering: [] });
  });

  test("keeps the changes while a destination is down, and reports that it is", async () => {
    await publishDestination(publication);
    const down = {
      ...publication,
      destination: { ...target, migrate: () => Promise.reject(new Error("down")) },
    };
    for (const pid of ["p1", "p2"]) {
      await source.sql(insertPerson, [pid, pid]);
      expect(await rejection(publishDestination(down))).toMatchObject({ message: "down" });
    }
    expect(await waiting()).toBe(2);
    await publishDestination(publication);
    expect(values("person", "full_name")).toEqual(["p1", "p2"]);
  });

  test("publishes many keys in bounded batches and then the freshness of that snapshot", async () => {
    target = createMemoryDestination("memory", 100);
    publication = await source.publicationTo(target);
    await publishDestination(publication);
    await source.sql(
      "INSERT INTO person_data.person (service_pid) SELECT 'p' || i FROM generate_series(1, 250) AS i",
    );
    await source.sql(
      "INSERT INTO person_data_state.table_load (table_name, job, last_success_at, _synced_at, _run_id) VALUES ('person', 'j', '2026-01-01', now(), 'r')",
    );
    const before = target.committed.length;
    await publishDestination(publication);
    const batches = target.committed.slice(before).map(({ tables }) => tables.includes("table_freshness"));
    expect(batches).toEqual([false, false, true]);
    expect([...target.rows("table_freshness").values()]).toMatchObject([
      { table_name: "person", last_success_at: "2026-01-01T00:00:00+00:00" },
    ]);
    expect(target.rows("person").size).toBe(250);
  });

  test("publishes a table with a new column as a whole", async () => {
    publication = await source.publicationTo(target);
    await source.sql(insertPerson, ["p1", "Ada"]);
    await publishDestination(publication);
    const before = target.committed.length;
    await source.sql(
      "UPDATE person_data_state.followed_table SET columns = 'fewer' WHERE table_name = 'person'",
    );
    await publishDestination(publication);
    expect(target.committed.slice(before).map(({ tables }) => tables)).toEqual([
      ["person"],
      ["table_freshness"],
    ]);
  });

  test("holds only the tables that are listed, and follows no others", async () => {
    await publishDestination({ ...publication, catalog: catalogOf(["person", "person_email"]) });
    await source.sql(insertPerson, ["p1", "Ada"]);
    await source.sql(
      "INSERT INTO person_data.segment (segment_id, _synced_at, _run_id) VALUES ('s', now(), 'r')",
    );
    expect(await waiting()).toBe(1);
    await publishDestination({ ...publication, catalog: catalogOf(["segment"]) });
    expect(values("segment", "segment_id")).toEqual(["s"]);
    await source.sql(insertPerson, ["p2", "Bob"]);
    expect(await waiting()).toBe(0);
  });

  test.each([
    ["every table is", null, ["tombstone"]],
    ["only other tables are", ["person"], ["person"]],
  ])("marks a batch that carries an erasure, where %s listed", async (_, only, tables) => {
    const listed = { ...publication, catalog: catalogOf(only) };
    await source.sql(insertPerson, ["p1", "Ada"]);
    await publishDestination(listed);
    expect(target.committed.at(-1)).toMatchObject({ erases: false });
    await source.sql(`DELETE FROM person_data.person; INSERT INTO person_data.tombstone
      (tombstone_id, erased_at, _synced_at, _run_id) VALUES (gen_random_uuid(), now(), now(), 'r')`);
    await publishDestination(listed);
    const erasing = target.committed.find(({ erases }) => erases);
    expect(erasing?.tables).toEqual(expect.arrayContaining(tables));
    expect(target.rows("tombstone").size).toBe(only ? 0 : 1);
  });

  test("keeps the files of two processes apart that repeat the same batch", async () => {
    await publishDestination(publication);
    await source.sql(insertPerson, ["p1", "Ada"]);
    let isFirst = true;
    const slow: Publication = {
      ...publication,
      destination: {
        ...target,
        async stage(batch, staged) {
          if (isFirst) {
            isFirst = false;
            // The other process publishes the same batch in the meantime.
            await publishDestination(publication);
          }
          return target.stage(batch, staged);
        },
      },
    };
    await publishDestination(slow);
    expect(values("person", "full_name")).toEqual(["Ada"]);
    expect(await readdir(publication.folder)).toEqual([]);
  });

  test("drops a destination with its triggers and marks", async () => {
    await publishDestination(publication);
    await source.sql(insertPerson, ["p1", "Ada"]);
    expect(await dropDestination(publication.db, "memory")).toBe(true);
    expect(await dropDestination(publication.db, "memory")).toBe(false);
    await source.sql(insertPerson, ["p2", "Bob"]);
    const [left] = await source.sql(
      `SELECT (SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'publish%') AS triggers,
        (SELECT count(*) FROM person_data_state.dirty_key) AS keys, (SELECT count(*) FROM person_data_ops.publication) AS destinations`,
    );
    expect(left).toEqual({ triggers: "0", keys: "0", destinations: "0" });
  });

  test("two destinations follow the same changes, each at its own pace", async () => {
    const second = createMemoryDestination("second");
    const other = await source.publicationTo(second, TABLES);
    await publishDestination(publication);
    await publishDestination(other);
    await source.sql(insertPerson, ["p1", "Ada"]);
    await publishDestination(publication);
    expect(second.rows("person").size).toBe(0);
    await publishDestination(other);
    expect(second.rows("person")).toEqual(target.rows("person"));
  });

  test("two erasures that wait for it are completed together", async () => {
    const { warehouse } = source.context;
    await source.sql("INSERT INTO person_data.person (service_pid) VALUES ('p1'), ('p2')");
    await publishDestination(publication);
    const ids: string[] = [];
    for (const pid of ["p1", "p2"]) {
      const { erasureId: id } = await warehouse.requestErasure(
        await warehouse.findPeople({ pids: [pid], emails: [], rows: [] }, []),
      );
      await warehouse.removeErased(id);
      ids.push(id);
    }
    const isDue = [{ kind: "destination", name: target.name }];
    expect([...(await warehouse.completeErasures(ids, null)).values()]).toEqual([isDue, isDue]);
    await publishDestination(publication);
    expect([...(await warehouse.completeErasures(ids, null)).values()]).toEqual([[], []]);
    // When they were completed is a change to publish.
    expect(await waiting()).toBeGreaterThan(0);
  });

  test("an erasure that another process makes final while it is judged still waits for its publication", async () => {
    const { warehouse } = source.context;
    await source.sql("INSERT INTO person_data.person (service_pid) VALUES ('p1')");
    await publishDestination(publication);
    const found = await warehouse.findPeople({ pids: ["p1"], emails: [], rows: [] }, []);
    const { erasureId: id } = await warehouse.requestErasure(found);
    await publishDestination(publication);
    const { db } = source;
    let removals = 0;
    db.pool.once("acquire", (session) => {
      // One of the overloads of `query`, whichever it is.
      const query = session.query.bind(session) as (...args: unknown[]) => Promise<unknown>;
      const queryThenRemove = async (...args: unknown[]) => {
        const result = await query(...args);
        // The first statement of the judgment itself.
        if (removals === 0 && /erasure_request|dirty_key/u.test(JSON.stringify(args))) {
          removals += 1;
          await warehouse.removeErased(id);
        }
        return result;
      };
      Object.assign(session, { query: queryThenRemove });
      db.pool.once("release", () => Reflect.deleteProperty(session, "query"));
    });
    const reasons = await completeErasures(db, [id], null);
    expect(removals).toBe(1);
    expect(reasons.get(id)).toEqual([{ kind: "destination", name: target.name }]);
    expect(await warehouse.readOpenErasures()).toEqual([id]);
  });
});
