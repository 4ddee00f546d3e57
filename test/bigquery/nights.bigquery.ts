import { randomBytes } from "node:crypto";
import { beforeAll, describe, expect, inject, test } from "vitest";
import { openClient } from "../../src/load/bigquery/client.ts";
import { openSession, type Session } from "../../src/load/bigquery/session.ts";
import { STAGING_PREFIX, tablesNamed } from "../../src/load/bigquery/staging.ts";
import { tables } from "../../src/schemas/registry.ts";
import { type CliResult, makeFolder, runCli } from "../cli/support/cli.ts";
import type { TestBigQuery } from "../support/bigquery-emulator.ts";
import { openMirror } from "../support/bigquery-mirror.ts";
import { findDifferences, readContents, type TableContents } from "../support/comparable-tables.ts";
import { createDatabase } from "../support/fresh-database.ts";
import { connectAsText, openPostgresPlace } from "../load/postgres-place.ts";
import { bigQueryOfRun } from "../support/test-bigquery.ts";

const bigQuery = await bigQueryOfRun();

/** Steps of a run between which it is killed: manifest, load, transaction, COMMIT, removal from the spool, checkpoint. */
const STEPS = [
  "after_spool_fsync",
  "before_copy",
  "after_copy",
  "before_commit",
  "after_commit",
  "after_spool_removal",
  "before_checkpoint",
] as const;

function configOf(warehouse: string): string {
  return `service: { base_url: sandbox }
sandbox: { people: 2000, input_rows: 120 }
warehouse: ${warehouse}
inputs:
  customers:
    table: crm.customers
    key: id
    cursor: updated_at
    fields: { first_name: first_name, last_name: last_name, emails: [email, work_email], phones: [phone], city: city }
jobs:
  resolve_customers: { type: resolve, input: customers }
  validate_customers: { type: validate_emails, input: customers }
  enrich_customers: { type: enrich, input: customers, pid_from: resolve_customers, valid_emails_from: validate_customers }
`;
}

/** A warehouse in BigQuery that the command fills. */
interface Setting {
  readonly run: (env?: Readonly<Record<string, string>>) => Promise<CliResult>;
  readonly contents: () => Promise<TableContents>;
  readonly session: Session;
}

const COMPARED = { withoutTables: ["call_in_doubt"] };

async function makeBigQuerySetting({ project: given, apiEndpoint }: TestBigQuery): Promise<Setting> {
  const project = apiEndpoint === null ? given : `night-${randomBytes(4).toString("hex")}`;
  const endpoint = apiEndpoint === null ? "" : `, api_endpoint: "${apiEndpoint}"`;
  const cwd = await makeFolder({
    "config.yaml": configOf(`{ type: bigquery, project: ${project}, location: US${endpoint} }`),
  });
  const client = openClient({ project, credentialsFile: null, impersonate: null, apiEndpoint });
  const names = { project, data: "person_data", ops: "person_data_ops" };
  const session = openSession({ client, names, location: null, maximumBytesBilled: null });
  return {
    session,
    run: (env = {}) => runCli(["run", "--yes"], { cwd, env }),
    async contents() {
      const place = await openPostgresPlace();
      const written = new Set(tables.map(({ name }) => name));
      const mirror = await openMirror(place.client, { session, folder: inject("runFolder"), written });
      await mirror.prefetch();
      const contents = await readContents(place.client, COMPARED);
      await mirror.close();
      await place.close();
      return contents;
    },
  };
}

/** A failure shows what was said. */
function expectSuccess({ code, stderr }: CliResult): void {
  expect({ code, said: code === 0 ? "" : stderr }).toEqual({ code: 0, said: "" });
}

describe.runIf(bigQuery)("nights in BigQuery", () => {
  // Only where it is there anything of this runs.
  const there = bigQuery ?? { project: "", apiEndpoint: null };
  let expected: TableContents;

  beforeAll(async () => {
    const database = await createDatabase();
    const cwd = await makeFolder({ "config.yaml": configOf(`{ type: postgres, url: "\${WAREHOUSE_URL}" }`) });
    for (let night = 0; night < 2; night++) {
      const { code, stderr } = await runCli(["run", "--yes"], { cwd, env: { WAREHOUSE_URL: database.url } });
      if (code !== 0) throw new Error(stderr);
    }
    const client = await connectAsText(database.url);
    expected = await readContents(client, COMPARED);
    await client.end();
    await database.drop();
  });

  test("leave the same tables behind as in Postgres, value by value", async () => {
    const setting = await makeBigQuerySetting(there);
    const first = await setting.run();
    expectSuccess(first);
    const second = await setting.run();
    expectSuccess(second);
    expect(second.stdout).toContain("no record was sent");
    expect([...expected.values()].reduce((sum, rows) => sum + rows.size, 0)).toBeGreaterThan(500);
    expect(findDifferences(expected, await setting.contents())).toEqual([]);
    expect(await tablesNamed(setting.session, STAGING_PREFIX)).toEqual([]);
  }, 1_200_000);

  test.each(STEPS)(
    "that are killed at %s lose and double nothing, and leave no staging table after the next run",
    async (step) => {
      const setting = await makeBigQuerySetting(there);
      const killed = await setting.run({ PERSON_ETL_CRASH_AT: step });
      expect(killed.code).toBe(null);
      expectSuccess(await setting.run());
      expect(findDifferences(expected, await setting.contents())).toEqual([]);
      expect(await tablesNamed(setting.session, STAGING_PREFIX)).toEqual([]);
    },
    1_200_000,
  );
});
