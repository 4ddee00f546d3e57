import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { makeFolder, runJson, startCli } from "./support/cli.ts";
import { expectDescribed } from "./support/documents.ts";
import { makeServed, type Setting } from "./support/setting.ts";

const JOBS = `prices: { currency: USD, resolve: 0.01, validate_emails: 0.002, enrich: 0.1, unlock: 0.2 }
budgets: { enrich: { per_day: 100 }, unlock: { per_month: { amount: 1000 } } }
publish: { local: { type: duckdb, path: people.duckdb } }
jobs:
  resolve_customers: { type: resolve, input: customers, schedule: "15 1 * * *" }
  validate_customers: { type: validate_emails, input: customers }
  enrich_customers: { type: enrich, input: customers, pid_from: resolve_customers }
  push: { type: segment_push, name: All, sql: select service_pid from person_data.identity_link, after: enrich_customers }
  members: { type: segment_members, segments: [{ job: push }] }
  deaths: { type: death_signals, segments: [{ job: push }] }
  usage: { type: endpoint_usage, start_date: 2026-01-01 }
  audiences: { type: audience_search, searches: { nurses: { query: registered nurses in Ohio } } }
`;

/** Command lines, in order, with their exit codes; runJson compares each document with the schema. */
const commands: readonly (readonly [line: string, code: number])[] = [
  ["check", 0],
  ["status", 2],
  ["migrate --print", 0],
  ["migrate --print --grants", 0],
  ["migrate --accept-database", 0],
  ["plan --show 1", 0],
  ["run --max-records 20", 0],
  ["run --run-id documents --yes", 0],
  ["run --dry-run", 0],
  ["runs list", 0],
  ["runs show documents", 0],
  ["check", 0],
  ["explain customers/1", 0],
  ["explain customers/0", 1],
  ["status", 0],
  ["costs", 0],
  ["checkpoint show deaths", 0],
  ["checkpoint reset deaths", 3],
  ["checkpoint reset deaths --yes", 0],
  ["checkpoint reset members --stream nobody --yes", 2],
  ["checkpoint set members {oops --yes", 2],
  ["checkpoint show nobody", 2],
  ["rejects list --all", 0],
  ["rejects retry", 3],
  ["rejects retry --yes", 0],
  ["rejects drop --yes", 0],
  ["rejects drop --yes", 0],
  ["publish --verify", 0],
  ["publish --drop nowhere", 2],
  ["search nurses --size 2", 0],
  ["audience list", 0],
  ["audience show nurses", 0],
  ["audience unlock nurses", 3],
  ["audience unlock nurses --yes", 0],
  ["erase --source-key customers/1 --dry-run", 0],
  ["erase --source-key customers/1 --yes", 0],
  ["erase --email nobody@example.com --yes", 1],
  ["config show", 0],
  ["completion fish", 0],
  ["completion jobs", 0],
];

/** The same, at the end. */
const lastCommands: typeof commands = [
  ["drop --trial", 3],
  ["drop --trial --yes", 0],
  ["drop --trial --yes", 0],
];

const stayUp = ["schedule", "ui --port 0", "sandbox --port 0"];

async function runAll(list: typeof commands, setting: Setting): Promise<void> {
  for (const [line, code] of list) {
    const done = await runJson(line.split(" "), setting);
    expect(done.code, `${line}: ${JSON.stringify(done.document.error)}`).toBe(code);
  }
}

async function firstDocument(line: string, setting: Pick<Setting, "cwd" | "env">): Promise<void> {
  const running = startCli(["--json", ...line.split(" ")], setting);
  await expectDescribed(line.split(" "), JSON.parse(await running.firstLine()));
  running.child.kill("SIGTERM");
  await running.result;
}

test("the documents of all commands are as their JSON Schema says", async () => {
  const setting = await makeServed({ rows: 80, jobs: `${JOBS}http: { port: 0 }\n` });
  await setting.query(
    "UPDATE crm.customers SET email = 'no address', work_email = NULL, phone = NULL WHERE id = 7",
  );
  await runAll(commands, setting);
  const cursor = (await runJson(["checkpoint", "show", "members"], setting)).document["checkpoints"];
  const [first] = cursor as readonly { readonly cursor: object; readonly stream: string }[];
  const set = ["checkpoint", "set", "members", JSON.stringify(first?.cursor), "--yes"];
  expect((await runJson(set, setting)).code).toBe(0);
  const dryRun = await runJson(["run", "--dry-run", "--max-records", "5"], setting);
  expect(dryRun.document).toEqual((await runJson(["plan", "--max-records", "5"], setting)).document);
  for (const line of stayUp) await firstDocument(line, setting);
  await runAll(lastCommands, setting);

  const folder = await makeFolder();
  const init = "init --base-url sandbox --table people --key id --field emails=email";
  expect((await runJson(init.split(" "), { cwd: folder })).code).toBe(0);
  await firstDocument("database", { cwd: folder, env: {} });

  const schema: { readonly $defs: object } = JSON.parse(
    readFileSync("docs/reference/commands.schema.json", "utf8"),
  );
  const tried = [
    ...[...commands, ...lastCommands].map(([line]) => line),
    ...stayUp,
    "database",
    set.join(" "),
    init,
  ];
  const described = Object.keys(schema.$defs).filter((name) => /^[a-z]/u.test(name));
  const missing = described.filter(
    (name) => !tried.some((line) => `${line} `.startsWith(`${name.replace("_", " ")} `)),
  );
  expect(missing).toEqual([]);
});
