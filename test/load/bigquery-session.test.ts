import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import type { ApiRequest } from "../../src/load/bigquery/client.ts";
import {
  BigQueryFailure,
  isAborted,
  isDataFault,
  isDuplicate,
  isNotFound,
} from "../../src/load/bigquery/failure.ts";
import { type JobPlace, NOW, openSession } from "../../src/load/bigquery/session.ts";
import {
  createStagingTable,
  dropTable,
  loadFile,
  STAGING_PREFIX,
  stagingName,
  tablesNamed,
} from "../../src/load/bigquery/staging.ts";
import { bigQueryOfRun, type FreshDatasets, freshDatasets } from "../support/test-bigquery.ts";

const bigQuery = await bigQueryOfRun();

describe.runIf(bigQuery)("the way to BigQuery", () => {
  let place: FreshDatasets;
  beforeAll(async () => {
    if (!bigQuery) throw new Error("no BigQuery");
    place = await freshDatasets(bigQuery, { create: true });
    await place.session.change(sql`CREATE TABLE ${sql.id(place.data, "counter")} (name STRING, n INT64)`);
    await place.session.change(sql`INSERT INTO counter (name, n) VALUES ('a', 0)`);
  });
  afterAll(() => place.drop());

  test("reads values of every type as text that loses nothing, and takes them as parameters", async () => {
    const [row] = await place.session.rows(sql`
      SELECT ${"it's `quoted` \\ é"} AS text, ${7} AS number, ${true} AS truth, ${null} AS nothing, ${["a", "b"]} AS list,
        CAST('9007199254740993' AS INT64) AS beyond, CAST('12345678901234567890.123456789' AS NUMERIC) AS exact,
        TIMESTAMP '2026-11-21 04:00:00.000120+00' AS at, TIMESTAMP '1969-12-31 23:59:59.5+00' AS before,
        DATETIME '2026-11-21 04:00:00.5' AS zoneless, DATE '2026-11-21' AS day, STRUCT(1 AS one, 'x' AS other) AS pair`);
    expect(row).toEqual({
      text: "it's `quoted` \\ é",
      number: 7,
      truth: true,
      nothing: null,
      list: ["a", "b"],
      beyond: "9007199254740993",
      exact: "12345678901234567890.123456789",
      at: "2026-11-21T04:00:00.00012Z",
      before: "1969-12-31T23:59:59.5Z",
      zoneless: "2026-11-21T04:00:00.500000",
      day: "2026-11-21",
      pair: { one: 1, other: "x" },
    });
  });

  test("gives each parameter its own value, behind branches that are left out and in nested queries, too", async () => {
    const { session } = place;
    const [row] = await session.transaction({
      declare: [sql`given STRING`, sql`listed STRING`],
      statements: [
        sql`IF ${1} > ${2} THEN UPDATE counter SET name = ${"never"} WHERE name = ${"a"}; END IF`,
        sql`SET given = ${"it"}`,
        sql`SET listed = (SELECT STRING_AGG(x || ${"!"}, ' ') FROM (SELECT x FROM UNNEST(${["a", "b"]}) AS x WHERE x != ${"b"}))`,
      ],
      outcome: sql`SELECT given, listed, ${3} AS last`,
    });
    expect(row).toEqual({ given: "it", listed: "a!", last: 3 });
  });

  test("reads a long result page by page", async () => {
    const pages = [];
    const statement = sql`SELECT x FROM UNNEST(GENERATE_ARRAY(1, 5000)) AS x ORDER BY x`;
    for await (const page of place.session.pages(statement, 2000)) pages.push(page.length);
    expect(pages).toEqual([2000, 2000, 1000]);
  });

  test("does a transaction as a whole or not at all, and tries again what lost against another", async () => {
    const { session } = place;
    const raise = (by: number) =>
      session.transaction<{ n: number }>({
        declare: [sql`seen INT64 DEFAULT 0`],
        statements: [
          sql`SET seen = (SELECT n FROM counter WHERE name = 'a')`,
          sql`UPDATE counter SET n = seen + ${by} WHERE name = 'a'`,
        ],
        outcome: sql`SELECT seen + ${by} AS n, ${NOW} AS at`,
      });
    await Promise.all([1, 10, 100].map(raise));
    expect(await session.rows(sql`SELECT n FROM counter`)).toEqual([{ n: 111 }]);
    const failing = session.transaction({
      statements: [
        sql`UPDATE counter SET n = 0 WHERE name = 'a'`,
        sql`IF @@row_count = 1 THEN RAISE USING MESSAGE = 'person-etl: lock_lost'; END IF`,
      ],
    });
    await expect(failing).rejects.toSatisfy((error) => isAborted(error, "lock_lost"));
    expect(await session.rows(sql`SELECT n FROM counter`)).toEqual([{ n: 111 }]);
  });

  test("finds a transaction again whose reply was lost, and does it anew only where it failed", async () => {
    const { client, names, location } = place.session;
    let isLosing = true;
    const lossy = openSession({
      client: {
        ...client,
        async send<Answer>(request: ApiRequest) {
          const answer = client.send<Answer>(request);
          await Promise.allSettled([answer]);
          if (isLosing && request.path.startsWith("/queries/")) {
            throw new BigQueryFailure("ECONNRESET", "no answer", null);
          }
          return answer;
        },
      },
      names,
      location,
      maximumBytesBilled: null,
    });
    await lossy.script([sql`INSERT INTO counter (name, n) VALUES ('again', 0)`]).catch(() => {});
    const raise = (job: JobPlace) =>
      lossy.transaction<{ n: number }>({
        place: job,
        declare: [sql`raised INT64 DEFAULT 0`],
        statements: [
          sql`UPDATE counter SET n = n + 1 WHERE name = 'again'`,
          sql`SET raised = (SELECT n FROM counter WHERE name = 'again')`,
          sql`IF raised > 2 THEN RAISE USING MESSAGE = 'person-etl: lock_lost'; END IF`,
        ],
        outcome: sql`SELECT raised AS n`,
      });
    const first: JobPlace = { jobId: null };
    await expect(raise(first)).rejects.toMatchObject({ code: "ECONNRESET" });
    isLosing = false;
    for (let i = 0; i < 2; i++) expect(await raise(first)).toEqual([{ n: 1 }]);
    expect(await raise({ jobId: null })).toEqual([{ n: 2 }]);
    const failing: JobPlace = { jobId: null };
    isLosing = true;
    await expect(raise(failing)).rejects.toMatchObject({ code: "ECONNRESET" });
    expect(failing.jobId).not.toBe(null);
    isLosing = false;
    await expect(raise(failing)).rejects.toSatisfy((error) => isAborted(error, "lock_lost"));
    expect(failing.jobId).toBe(null);
    expect(await lossy.rows(sql`SELECT n FROM counter WHERE name = 'again'`)).toEqual([{ n: 2 }]);
  });

  test("loads a file once, however often it is asked to under the same id", async () => {
    const { session } = place;
    const table = stagingName("test");
    const columns = [
      { name: "a", type: "STRING" },
      { name: "at", type: "TIMESTAMP" },
      { name: "j", type: "JSON" },
      { name: "n", type: "NUMERIC" },
    ];
    const file = join(inject("runFolder"), `${table}.ndjson`);
    const row = { a: "é", at: "2026-11-21T04:00:00.123456Z", j: { x: [1.5] }, n: "12345678901234567.25" };
    await writeFile(file, `${JSON.stringify(row)}\n${JSON.stringify({ a: "b" })}\n`);
    await createStagingTable(session, table, columns);
    await createStagingTable(session, table, columns);
    const request = { file, table, columns, jobId: `load_${table}` };
    for (let i = 0; i < 2; i++) expect(await loadFile(session, request)).toMatchObject({ rows: 2 });
    expect(await session.rows(sql`SELECT a, at, j, n FROM ${sql.id(table)} ORDER BY a DESC`)).toEqual([
      { ...row, j: '{"x":[1.5]}' },
      { a: "b", at: null, j: null, n: null },
    ]);
    await writeFile(file, '{"at":"not a time"}\n');
    await expect(loadFile(session, { ...request, jobId: `bad_${table}` })).rejects.toSatisfy(isDataFault);
    expect(await tablesNamed(session, STAGING_PREFIX)).toEqual([table]);
    for (let i = 0; i < 2; i++) await dropTable(session, table);
    expect(await tablesNamed(session, STAGING_PREFIX)).toEqual([]);
  });

  test("says in one word what is wrong", async () => {
    const { session } = place;
    await expect(session.rows(sql`SELECT * FROM missing`)).rejects.toSatisfy(isNotFound);
    await expect(session.change(sql`CREATE TABLE counter (name STRING)`)).rejects.toSatisfy(isDuplicate);
    await expect(session.rows(sql`SELECT nothing FROM counter`)).rejects.toMatchObject({
      code: "invalidQuery",
    });
  });
});
