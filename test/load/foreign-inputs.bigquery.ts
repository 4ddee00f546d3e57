import { mkdir, readdir, writeFile } from "node:fs/promises";
import { sql } from "kysely";
import { describe, expect, test } from "vitest";
import { inputFile, inputTable } from "../../src/load/bigquery/manifest.ts";
import { openForeignDatabase } from "../../src/load/open.ts";
import type { KnownBy } from "../../src/load/warehouse.ts";
import { bigQueryOfRun } from "../support/test-bigquery.ts";
import { openBigQueryPlace } from "./bigquery-place.ts";
import { withForeignInputs } from "./foreign-place.ts";
import { openPostgresPlace } from "./postgres-place.ts";
import { describeCursor } from "./suite/cursor.ts";
import { holdJobs, matchAll, runNight, runOf } from "./suite/nights.ts";
import { enrichSpec, people } from "./suite/people.ts";
import { describeEqualRecords } from "./suite/equal-records.ts";
import { describeInputs } from "./suite/inputs.ts";
import { describeMissingRows } from "./suite/missing-rows.ts";
import { describePidFrom } from "./suite/pid-from.ts";
import { describePushes } from "./suite/pushes.ts";
import { describeRejectedRows } from "./suite/rejected-rows.ts";
import { describeSelection } from "./suite/selection.ts";
import { describeShards } from "./suite/shards.ts";
import { describeValidEmails } from "./suite/valid-emails.ts";
import { describeWarehouse } from "./warehouse-suite.ts";

const bigQuery = await bigQueryOfRun();

/** What depends on where the rows of inputs are. */
const parts = [
  describeSelection,
  describeRejectedRows,
  describeEqualRecords,
  describeCursor,
  describeInputs,
  describePidFrom,
  describeValidEmails,
  describeShards,
  describeMissingRows,
  describePushes,
];

/** Two keys, a list, and a value. */
const typed = {
  ...people,
  relation: { table: ["crm", "typed"] },
  key: ["a", "b"],
  fields: { emails: ["mails"], first_name: ["name"], city: ["seen_at"] },
};

const bigQueryConnection = (project: string, apiEndpoint: string | null) =>
  ({
    type: "bigquery",
    name: "lake",
    project,
    dataset: "crm",
    location: null,
    credentialsFile: null,
    impersonate: null,
    apiEndpoint,
    maximumBytesBilled: null,
  }) as const;

describe.runIf(bigQuery)("inputs of another database", () => {
  if (!bigQuery) return;

  test("give the same texts, lists and keys in both directions", async () => {
    const place = await openBigQueryPlace(bigQuery);
    const { warehouse, session } = place;
    const there = await openPostgresPlace();
    const expected = {
      '["7", "\\\\x00ff"]': {
        emails: ['b,"c"\\@example.com', "tab\t@example.com"],
        first_name: "é\n\\n",
        city: "2026-01-02 03:04:05.5+00",
      },
    };
    await there.sql(
      "CREATE SCHEMA crm; CREATE TABLE crm.typed (a numeric, b bytea, mails text[], name text, seen_at timestamptz)",
    );
    await there.sql(
      `INSERT INTO crm.typed VALUES (7.0, '\\x00ff', ARRAY['b,"c"\\@example.com', NULL, ' ', E'tab\\t@example.com'], E'é\\n\\\\n',
        '2026-01-02 03:04:05.5+00')`,
    );
    const inPostgres = { ...typed, connection: { type: "postgres", name: "crm", url: there.url } as const };
    expect(await warehouse.checkInput(inPostgres)).toEqual([]);
    const job = "enrich_people";
    const spec = enrichSpec({ job, input: inPostgres });
    // As a crash leaves it: who gets the job's lock clears it away.
    await mkdir(place.workFolder, { recursive: true });
    await writeFile(inputFile(place.workFolder, inputTable(runOf(spec))), "");
    await holdJobs(warehouse, [job]);
    await warehouse.planLookup(spec);
    expect((await runNight(place, spec, matchAll)).sent).toEqual(expected);
    expect((await readdir(place.workFolder)).filter((name) => name.endsWith(".ndjson"))).toEqual([]);

    await session.script([
      sql`CREATE SCHEMA IF NOT EXISTS crm`,
      sql`CREATE TABLE crm.typed AS SELECT 7 AS a, b'\\x00\\xff' AS b, ['b,"c"\\\\@example.com', ' ', 'tab\\t@example.com'] AS mails,
        'é\\n\\\\n' AS name, TIMESTAMP '2026-01-02 03:04:05.5+00' AS seen_at`,
    ]);
    const connection = bigQueryConnection(session.names.project, bigQuery.apiEndpoint);
    const inBigQuery = { ...typed, relation: { table: ["typed"] }, connection };
    expect(await there.warehouse.checkInput(inBigQuery)).toEqual([]);
    await holdJobs(there.warehouse, [job]);
    expect((await runNight(there, enrichSpec({ job, input: inBigQuery }), matchAll)).sent).toEqual(expected);

    const emails = ['b,"c"\\@example.com', "tab\t@example.com"];
    const row = { sourceKey: '["7", "\\\\x00ff"]', emails, pids: [] };
    for (const input of [inPostgres, inBigQuery]) {
      const database = openForeignDatabase(input.connection);
      const find = (wanted: Partial<KnownBy>) =>
        database.findRows(input, { pids: [], emails: [], rows: [], ...wanted });
      expect(await find({ emails: ["nobody@example.com", "tab\t@example.com"] })).toEqual([row]);
      expect(await find({ rows: [{ source: "people", sourceKey: row.sourceKey }] })).toEqual([row]);
      expect(await find({ rows: [{ source: "others", sourceKey: row.sourceKey }] })).toEqual([]);
      expect(await find({ emails: ["nobody@example.com"], pids: ["p"] })).toEqual([]);
      await database.close();
    }

    const wrong = { ...inBigQuery, key: ["nobody"] };
    expect((await there.warehouse.checkInput(wrong)).map(({ path }) => path)).toEqual(["inputs.people.key"]);
    await place.close();
    await there.close();
  });

  describeWarehouse(
    "BigQuery with inputs in Postgres",
    async () => {
      const place = await openBigQueryPlace(bigQuery);
      const there = await openPostgresPlace();
      const connection = { type: "postgres", name: "crm", url: there.url } as const;
      return {
        ...withForeignInputs(place, { connection, sql: (...args) => there.sql(...args) }),
        async close() {
          await place.close();
          await there.close();
        },
      };
    },
    parts,
  );

  describeWarehouse(
    "Postgres with inputs in BigQuery",
    async () => {
      const place = await openPostgresPlace();
      const there = await openBigQueryPlace(bigQuery);
      const connection = bigQueryConnection(there.session.names.project, bigQuery.apiEndpoint);
      const flush = () => there.mirror.flush();
      return {
        ...withForeignInputs(place, { connection, sql: (...args) => there.sql(...args), flush }),
        async close() {
          await place.close();
          await there.close();
        },
      };
    },
    parts,
  );
});
