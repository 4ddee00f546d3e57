import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test, vi } from "vitest";
import { launcher, makeFolder } from "./support/cli.ts";
import { startOnTerminal } from "./support/on-terminal.ts";
import { makeServed, makeSetting } from "./support/setting.ts";
import { runSql } from "../support/run-sql.ts";

const RESOLVE = "jobs:\n  resolve_customers: { type: resolve, input: customers }\n";

test.concurrent("a narrow terminal shows figures instead of bars, and a block instead of a row", async () => {
  const setting = await makeSetting({ rows: 300, jobs: RESOLVE });
  const { code, screen } = await startOnTerminal(["run"], { ...setting, columns: 50 }).ended;
  expect(code).toBe(0);
  expect(screen).toMatch(/resolve_customers +100% {2}\d+ of \d+/);
  expect(screen).not.toContain("█");
  expect(screen).toMatch(/✓.* resolve_customers\r\n {2}read 300, sent \d+, billed \d+/);
});

test.concurrent("a failed job is reported by the summary, and not logged before it", async () => {
  const jobs =
    "jobs:\n  first: { type: resolve, input: customers }\n  second: { type: enrich, input: customers, after: first }\n";
  const setting = await makeServed({ rows: 5, jobs });
  const env = { ...setting.env, PERSON_SERVICE_API_KEY: "revoked" };
  const { code, screen } = await startOnTerminal(["run"], { ...setting, env, columns: 100 }).ended;
  expect(code).toBe(1);
  expect(screen).not.toContain("job failed");
  expect(screen).toContain("first: POST /v1/resolve: the service rejected the API key (401, request");
  expect(screen).toContain(" second was skipped because first ended the run.");
  expect(screen).toMatch(/ 1 of 2 jobs failed, 1 skipped \([\d.]+ s\): nothing was sent, 1 row written\./);
  const { screen: status } = await startOnTerminal(["status"], { ...setting, env, columns: 100 }).ended;
  expect(status).toContain(" second was skipped because first ended the run.");
  expect(status).not.toContain("second: second");
});

test.concurrent("--resend asks on a terminal, and sends nothing after a no", async () => {
  const setting = await makeSetting({ rows: 40, jobs: RESOLVE });
  expect((await startOnTerminal(["run"], { ...setting, columns: 120 }).ended).code).toBe(0);
  const run = startOnTerminal(["run", "--resend"], { ...setting, columns: 120 });
  await run.shows("[y/N]");
  run.type("n\n");
  const { code, screen } = await run.ended;
  expect(code).toBe(3);
  expect(screen).toContain("1 of 1 job stopped until you confirm");
});

test.concurrent("keys with control sequences can't reach the terminal", async () => {
  const setting = await makeSetting({ jobs: RESOLVE });
  await runSql(
    setting.url,
    `CREATE SCHEMA crm; CREATE TABLE crm.customers (id text PRIMARY KEY, first_name text, last_name text, email text,
      work_email text, phone text, city text, updated_at timestamptz);
     INSERT INTO crm.customers (id) VALUES (E'3\\x1b]0;PWNED-TITLE\\x07\\x1b[2J\\u009b5m\\u202e')`,
  );
  expect((await startOnTerminal(["run"], { ...setting, columns: 120 }).ended).code).toBe(0);
  const { code, screen } = await startOnTerminal(["rejects", "list"], { ...setting, columns: 120 }).ended;
  expect(code).toBe(0);
  expect(screen).toContain("no_identifier: None of the mapped columns has a value.");
  expect(screen).toContain("3\uFFFD]0;PWNED-TITLE\uFFFD\uFFFD[2J\uFFFD5m\uFFFD");
});

test.concurrent("a run whose output is closed still completes", async () => {
  const setting = await makeSetting({ rows: 60, jobs: RESOLVE });
  const { stdout } = await promisify(execFile)("sh", ["-c", `"${launcher}" run 2>&1 | head -n 1`], setting);
  expect(JSON.parse(stdout)).toMatchObject({ event: "sandbox_started" });
  const ended = async () =>
    expect(await setting.query("SELECT status FROM person_data_ops.sync_run")).toEqual([
      { status: "succeeded" },
    ]);
  await vi.waitFor(ended, { timeout: 60_000, interval: 100 });
});

test.concurrent("a failure on a terminal is shown as text, without JSON", async () => {
  const { code, screen } = await startOnTerminal(["status"], { cwd: await makeFolder(), columns: 100 }).ended;
  expect(code).toBe(2);
  expect(screen).toContain("\u001b[31m✗\u001b[39m No configuration at ");
  expect(screen).not.toContain("{");
});
