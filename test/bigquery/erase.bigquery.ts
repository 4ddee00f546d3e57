import { randomBytes } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { sql } from "kysely";
import { describe, expect, test } from "vitest";
import { openClient } from "../../src/load/bigquery/client.ts";
import { openSession, type Session } from "../../src/load/bigquery/session.ts";
import { tablesNamed } from "../../src/load/bigquery/staging.ts";
import { makeFolder, runCli, runJson } from "../cli/support/cli.ts";
import { API_KEY, sampleRows, startSandbox } from "../cli/support/setting.ts";
import type { TestBigQuery } from "../support/bigquery-emulator.ts";
import { bigQueryOfRun } from "../support/test-bigquery.ts";

const bigQuery = await bigQueryOfRun();

const ROWS = 150;

/** A warehouse in BigQuery that the command fills. */
interface Setting {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly session: Session;
}

function configOf(baseUrl: string, warehouse: string): string {
  return `service: { base_url: "${baseUrl}", api_key: "\${PERSON_SERVICE_API_KEY}" }
warehouse: ${warehouse}
inputs:
  customers:
    table: crm.customers
    key: id
    fields: { first_name: first_name, last_name: last_name, emails: [email, work_email], phones: [phone], city: city }
jobs:
  resolve_customers: { type: resolve, input: customers }
  validate_customers: { type: validate_emails, input: customers }
  enrich_customers: { type: enrich, input: customers, pid_from: resolve_customers, valid_emails_from: validate_customers }
  vip_push: { type: segment_push, name: "VIP customers", sql: "SELECT pid AS service_pid FROM crm.vip", after: [enrich_customers] }
  vip_members: { type: segment_members, segments: [{ job: vip_push }] }
`;
}

async function makeSetting({ project: given, apiEndpoint }: TestBigQuery): Promise<Setting> {
  const project = apiEndpoint === null ? given : `erase-${randomBytes(4).toString("hex")}`;
  const endpoint = apiEndpoint === null ? "" : `, api_endpoint: "${apiEndpoint}"`;
  const sandbox = await startSandbox(await makeFolder());
  const cwd = await makeFolder({
    "config.yaml": configOf(sandbox, `{ type: bigquery, project: ${project}, location: US${endpoint} }`),
  });
  const client = openClient({ project, credentialsFile: null, impersonate: null, apiEndpoint });
  const names = { project, data: "person_data", ops: "person_data_ops" };
  const session = openSession({ client, names, location: null, maximumBytesBilled: null });
  await session.change(sql`CREATE SCHEMA IF NOT EXISTS crm`);
  const columns = ["id", "first_name", "last_name", "email", "work_email", "phone", "city"];
  const values = columns.map((name) => `JSON_VALUE(e, '$.${name}') AS ${name}`);
  await session.change(sql`CREATE OR REPLACE TABLE crm.customers AS SELECT ${sql.raw(values.join(", "))}
    FROM UNNEST(JSON_QUERY_ARRAY(${JSON.stringify(sampleRows(ROWS))})) AS e`);
  await session.change(sql`CREATE OR REPLACE TABLE crm.vip (pid STRING)`);
  return { cwd, env: { PERSON_SERVICE_API_KEY: API_KEY }, session };
}

/** Somebody whom others name too: PID, what else is theirs alone, and their row. */
interface Subject {
  readonly pid: string;
  readonly key: string;
  readonly texts: readonly string[];
}

async function pickSubject({ session }: Setting): Promise<Subject> {
  const [row] = await session.rows<{ pid: string; source_key: string }>(sql`
    SELECT service_pid AS pid, MIN(source_key) AS source_key FROM person_data.enrichment
    WHERE service_pid IN (SELECT service_pid FROM person_data.person_email)
      AND (service_pid IN (SELECT relative_service_pid FROM person_data.person_relative)
        OR service_pid IN (SELECT service_spouse_pid FROM person_data.person))
    GROUP BY 1 HAVING COUNT(DISTINCT source_key) = 1 ORDER BY 1 LIMIT 1`);
  const { pid, source_key: key } = row ?? { pid: "", source_key: "" };
  const texts = await session.rows<{ text: string | null }>(sql`
    SELECT email_address AS text FROM person_data.person_email WHERE service_pid = ${pid}
    UNION DISTINCT SELECT phone_number FROM person_data.person_phone WHERE service_pid = ${pid}
    UNION DISTINCT SELECT email FROM crm.customers WHERE id = ${key}
    UNION DISTINCT SELECT work_email FROM crm.customers WHERE id = ${key}`);
  return { pid, key, texts: texts.flatMap(({ text }) => text ?? []) };
}

/** Every place in which one of the texts stands: all columns of all our tables but the tombstones, all files of ours. */
async function findTraces({ session, cwd }: Setting, { pid, texts }: Subject): Promise<readonly string[]> {
  const needles = [pid, ...texts].map((text) => text.toLowerCase());
  const found: string[] = [];
  for (const room of ["data", "ops"] as const) {
    for (const name of await tablesNamed(session, "", room)) {
      if (name === "tombstone") continue;
      const rows = await session.rows(sql`SELECT * FROM ${sql.id(session.names[room], name)}`);
      const text = JSON.stringify(rows).toLowerCase();
      if (needles.some((needle) => text.includes(needle))) found.push(name);
    }
  }
  const folder = join(cwd, ".person-etl");
  for (const path of await readdir(folder, { recursive: true }).catch(() => [])) {
    const bytes = await readFile(join(folder, path)).catch(() => null);
    if (bytes && needles.some((needle) => bytes.toString().toLowerCase().includes(needle))) found.push(path);
  }
  return found.toSorted();
}

describe.runIf(bigQuery)("erasing people from BigQuery", () => {
  // Only where it is there anything of this runs.
  const there = bigQuery ?? { project: "", apiEndpoint: null };

  test("leaves nothing of a person, and no later run, sweep or push brings anything back", async () => {
    const setting = await makeSetting(there);
    const first = await runJson(["run", "--yes"], setting);
    expect([first.code, first.stderr]).toEqual([0, expect.anything()]);
    const subject = await pickSubject(setting);
    await setting.session.change(sql`INSERT INTO crm.vip
      SELECT DISTINCT service_pid FROM person_data.enrichment WHERE service_pid IS NOT NULL`);
    expect((await runJson(["run", "vip_push", "vip_members", "--yes"], setting)).code).toBe(0);
    expect(await findTraces(setting, subject)).toEqual(
      expect.arrayContaining(["person", "segment_member", "segment_push_member"]),
    );

    const planned = await runJson(["erase", "--pid", subject.pid, "--dry-run"], setting);
    expect([planned.code, planned.document.status, planned.document["pids"]]).toEqual([0, "planned", 1]);
    const erased = await runJson(["--log-level", "trace", "erase", "--pid", subject.pid, "--yes"], setting);
    expect([erased.code, erased.document.status]).toEqual([0, "succeeded"]);
    expect(erased.document["rows"]).toEqual(planned.document["rows"]);
    for (const text of [subject.pid, ...subject.texts]) {
      expect(erased.stdout + erased.stderr).not.toContain(text);
    }
    expect(await findTraces(setting, subject)).toEqual([]);

    const again = await runJson(["run", "--resend", "--full-refresh", "--yes"], setting);
    expect([again.code, again.document["jobs"]]).toMatchObject([
      0,
      [{ records_suppressed: 1 }, {}, { records_suppressed: 1 }, { records_suppressed: 1 }, {}],
    ]);
    expect(await findTraces(setting, subject)).toEqual([]);
  }, 1_200_000);

  test("that is killed goes on with the next run, also where a load was killed before", async () => {
    const setting = await makeSetting(there);
    expect((await runJson(["run", "--yes"], setting)).code).toBe(0);
    const subject = await pickSubject(setting);
    const crash = (at: string) => ({ ...setting, env: { ...setting.env, PERSON_ETL_CRASH_AT: at } });
    const killedLoad = await runCli(["run", "enrich_customers", "--resend", "--yes"], crash("after_copy"));
    expect(killedLoad.code).toBe(null);
    expect((await findTraces(setting, subject)).filter((name) => name.startsWith("_etl_"))).not.toEqual([]);
    const row = `customers/${subject.key}`;
    const killed = await runCli(["erase", "--source-key", row, "--yes"], crash("after_erasure_noted"));
    expect(killed.code).toBe(null);
    expect((await runJson(["run", "--yes"], setting)).code).toBe(0);
    expect(await findTraces(setting, subject)).toEqual([]);
  }, 1_200_000);
});
