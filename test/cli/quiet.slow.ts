import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { expect, test } from "vitest";
import { runCli, runJson } from "./support/cli.ts";
import { API_KEY, makeServed, makeSetting, sampleRows } from "./support/setting.ts";

const ROWS = 300;
const FAULTS =
  "string_too_long:0.1,poison:0.02,500:0.1,cut_body:0.05,truncated_json:0.05,missing:0.2,wrong_types:0.2,unknown_fields:0.2";

/** Values of a person that are long enough to be recognized. */
function valuesOf(rows: readonly object[]): ReadonlySet<string> {
  const values = rows.flatMap((row) =>
    Object.entries(row).flatMap(([name, value]) =>
      name === "id" || name === "updated_at" || typeof value !== "string" ? [] : [value.trim()],
    ),
  );
  // ZIP codes are as short as many counts.
  return new Set(values.filter((value) => value.length >= 4 && !/^\d{1,6}$/u.test(value)));
}

/** Values that a text contains, plain words only as whole words. */
function findValues(text: string, values: ReadonlySet<string>): readonly string[] {
  const words = new Set(text.split(/[^\p{L}\p{N}@.+_-]+/u));
  return [...values].filter((value) => (/^[\p{L}]+$/u.test(value) ? words.has(value) : text.includes(value)));
}

/** Files below a folder, with their modes. */
async function filesBelow(folder: string): Promise<readonly { name: string; path: string; mode: number }[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return await Promise.all(
    entries
      .filter((entry) => entry.isFile())
      .map(async (entry) => {
        const path = join(entry.parentPath, entry.name);
        return { name: relative(folder, path), path, mode: (await stat(path)).mode & 0o777 };
      }),
  );
}

test("at level trace, with faults and a crash, no output and no file contains a value or a key", async () => {
  const jobs = `jobs:
  resolve_customers: { type: resolve, input: customers }
  validate_customers: { type: validate_emails, input: customers }
  enrich_customers: { type: enrich, input: customers, pid_from: resolve_customers }
alerts: { webhook: "\${WEBHOOK}", stale_after: 1s }
`;
  const setting = await makeServed({ rows: ROWS, jobs }, `--faults=${FAULTS}`);
  const webhook = "http://127.0.0.1:9/T0/webhook-secret-4711";
  const env = { ...setting.env, WEBHOOK: webhook };
  const said: string[] = [];
  const say = async (args: readonly string[], more: Readonly<Record<string, string>> = {}) => {
    const { stdout, stderr } = await runCli(["--log-level", "trace", ...args], {
      ...setting,
      env: { ...env, ...more },
    });
    said.push(stdout, stderr);
    return stderr;
  };
  await say(["check"]);
  await say(["plan"]);
  // The process kills itself after receiving answers, before the commit.
  await say(["run"], { PERSON_ETL_CRASH_AT: "before_commit" });
  const afterCrash = await filesBelow(join(setting.cwd, ".person-etl"));
  const log = await say(["run"]);
  await say(["--json", "run", "--resend", "--yes"]);
  await say(["rejects", "list"]);
  await say(["--json", "status"]);
  await say(["run"], { PERSON_SERVICE_API_KEY: "revoked-key-4711" });
  await say(["run", "--shard", "9/4"]);
  expect(log).toContain('"level":"debug"');

  const people = (await setting.query("SELECT * FROM person_data.person")) as readonly object[];
  const emails = (await setting.query(
    "SELECT email_address FROM person_data.person_email",
  )) as readonly object[];
  expect(people.length).toBeGreaterThan(50);
  const values = new Set([
    ...valuesOf(sampleRows(ROWS)),
    ...valuesOf(emails),
    ...people.flatMap((person) => ("service_pid" in person ? [String(person.service_pid)] : [])),
  ]);
  expect(values.size).toBeGreaterThan(1000);
  const secrets = new Set([API_KEY, "revoked-key-4711", "webhook-secret-4711"]);
  // Proof that the search finds it.
  const [anyValue = ""] = values;
  expect(findValues(`{"message":"tried ${anyValue}, then gave up"}`, values)).toContain(anyValue);
  for (const text of said) {
    expect(findValues(text, values)).toEqual([]);
    expect(findValues(text, secrets)).toEqual([]);
  }

  // Only the spool contains answers: readable by its owner alone, under names without data.
  const spooled = afterCrash.filter(({ name }) => name.startsWith("spool/"));
  expect(spooled.length).toBeGreaterThan(0);
  expect(spooled.filter(({ mode }) => (mode & 0o077) !== 0)).toEqual([]);
  for (const { name, path } of [...afterCrash, ...(await filesBelow(setting.cwd))]) {
    expect(findValues(name, values)).toEqual([]);
    const content = name.includes("spool/") ? "" : await readFile(path, "utf8");
    expect({ name, found: findValues(content, new Set([...values, ...secrets])) }).toEqual({
      name,
      found: [],
    });
  }

  // And the schema of runs and ledger, which more users may read.
  const tables = await setting.query(
    "SELECT table_name FROM information_schema.tables WHERE table_schema = 'person_data_ops' AND table_type = 'BASE TABLE'",
  );
  for (const { table_name: table } of tables) {
    const rows = await setting.query(
      `SELECT to_jsonb(t)::text AS row FROM person_data_ops."${String(table)}" AS t`,
    );
    const content = rows.map(({ row }) => String(row)).join("\n");
    expect({ table, found: findValues(content, new Set([...values, ...secrets])) }).toEqual({
      table,
      found: [],
    });
  }
});

test.each([
  { how: "an INSERT", job: "validate_customers", table: "email_validation" },
  { how: "a COPY", job: "enrich_customers", table: "person" },
])("of a trigger that raises in $how the log has the table, and nothing prints the row", async (failing) => {
  const setting = await makeSetting({ rows: ROWS });
  expect((await runJson(["migrate"], setting)).code).toBe(0);
  await setting.query(
    `CREATE FUNCTION quote_row() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN RAISE EXCEPTION 'this row is bad: %', NEW; END $$;
     CREATE TRIGGER quote_row BEFORE INSERT ON person_data.${failing.table} FOR EACH ROW EXECUTE FUNCTION quote_row()`,
  );
  const result = await runJson(["--log-level", "debug", "run"], setting);
  expect([result.code, result.document.status]).toEqual([1, "failed"]);
  expect(result.document["jobs"]).toContainEqual(
    expect.objectContaining({ job: failing.job, status: "failed" }),
  );
  const ended = result.stderr.split("\n").find((line) => line.includes('"job_failed"')) ?? "{}";
  const { message, code } = JSON.parse(ended);
  expect(code).toBe("warehouse_refused");
  expect(message).toContain(`person_data.${failing.table}`);
  const printed = result.stdout + result.stderr;
  expect(findValues(printed, new Set([API_KEY, ...valuesOf(sampleRows(ROWS))]))).toEqual([]);
});

test("an unhandled rejection is reported without a stack trace, and resources are closed", async () => {
  const setting = await makeServed({ rows: 10 }, "--latency", "5000");
  // Thrown outside our code, like a bug in a library, while the command is working.
  const stray = `const timer = setInterval(() => {
      if (process.listenerCount("uncaughtException") === 0) return;
      clearInterval(timer);
      setTimeout(() => { throw new Error("someone@example.com is no number") }, 1000);
    }, 50)`;
  await writeFile(join(setting.cwd, "stray.mjs"), stray);
  const env = { ...setting.env, NODE_OPTIONS: `--import=${join(setting.cwd, "stray.mjs")}` };
  const { code, document, stdout, stderr } = await runJson(["run"], { ...setting, env });
  expect([code, document.error?.code]).toEqual([1, "internal"]);
  expect(document.error?.message).toContain("--log-level debug");
  expect(stdout + stderr).not.toContain("is no number");
  expect(stdout + stderr).not.toContain("    at ");
});
