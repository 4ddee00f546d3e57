import { readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { hostname } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, test, type TestContext } from "vitest";
import { makeFolder, runCli, runJson, startCli } from "./support/cli.ts";
import { makeSetting, type Setting, startSandbox } from "./support/setting.ts";
import { forward, startServer } from "../support/http-proxy.ts";

const ROWS = 150;
/** Time for many commands in sequence on a busy machine. */
const TIME_LIMIT_MS = 300_000;

let sandbox = "";
beforeAll(async () => {
  sandbox = await startSandbox(await makeFolder());
});

/** Runs all jobs once with a sandbox; returns a setting with people to erase. */
async function makeFilled(rows = ROWS) {
  const setting = await makeSetting({ rows, baseUrl: sandbox });
  expect((await runJson(["run"], setting)).code).toBe(0);
  return setting;
}

/** Jobs that push everyone who is found into a segment. */
const pushInto = (segment: string) => `jobs:
  resolve_customers: { type: resolve, input: customers }
  push: { type: segment_push, name: "${segment} ${Date.now()}", after: resolve_customers,
    sql: "select service_pid from person_data.resolution where is_match" }
`;

/** Starts a proxy of the sandbox; `before` sees each request first, and may respond itself. Returns its address. */
async function startProxy(
  { onTestFinished }: TestContext,
  before: (path: string, response: ServerResponse) => Promise<void> | void,
): Promise<string> {
  const proxy = await startServer(async (request, response, body) => {
    await before(request.url ?? "", response);
    if (response.writableEnded) return;
    const reply = await forward(sandbox, request, body);
    response.writeHead(reply.status, reply.headers).end(reply.body);
  });
  onTestFinished(proxy.close);
  return proxy.url;
}

/** A person named by others: PID, values of this person alone, and the input row. */
interface Subject {
  readonly pid: string;
  readonly key: string;
  readonly texts: readonly string[];
}

async function pickSubject({ query }: Setting): Promise<Subject> {
  const [row] = await query(`
    SELECT e.service_pid AS pid, min(e.source_key) AS key FROM person_data.enrichment AS e
    JOIN person_data.person_email AS m USING (service_pid)
    WHERE EXISTS (SELECT FROM person_data.person_relative AS r WHERE r.relative_service_pid = e.service_pid)
       OR EXISTS (SELECT FROM person_data.person AS p WHERE p.service_spouse_pid = e.service_pid)
    GROUP BY 1 HAVING count(DISTINCT e.source_key) = 1 ORDER BY 1 LIMIT 1`);
  const pid = String(row?.["pid"]);
  const key = String(row?.["key"]);
  const texts = await query(`
    SELECT email_address AS text FROM person_data.person_email WHERE service_pid = '${pid}'
    UNION SELECT phone_number FROM person_data.person_phone WHERE service_pid = '${pid}'
    UNION SELECT linkedin_url FROM person_data.person WHERE service_pid = '${pid}'
    UNION SELECT email FROM crm.customers WHERE id = ${key} UNION SELECT work_email FROM crm.customers WHERE id = ${key}`);
  return { pid, key, texts: texts.flatMap(({ text }) => (typeof text === "string" ? text : [])) };
}

/** Places with one of the texts: all columns of our tables except the tombstones, and all our files. */
async function findTraces({ query, cwd }: Setting, { pid, texts }: Subject): Promise<readonly string[]> {
  const found: string[] = [];
  const tables = await query(`SELECT table_schema || '.' || table_name AS name FROM information_schema.tables
    WHERE table_schema IN ('person_data', 'person_data_ops', 'person_data_state') AND table_name <> 'tombstone' ORDER BY 1`);
  const needles = [pid, ...texts];
  const isThere = needles.map((text) => `strpos(lower(t::text), lower('${text.replaceAll("'", "''")}')) > 0`);
  for (const { name } of tables) {
    const [row] = await query(
      `SELECT count(*)::int AS rows FROM ${String(name)} AS t WHERE ${isThere.join(" OR ")}`,
    );
    if (row?.["rows"] !== 0) found.push(String(name));
  }
  const folder = join(cwd, ".person-etl");
  for (const path of await readdir(folder, { recursive: true }).catch(() => [])) {
    const bytes = await readFile(join(folder, path)).catch(() => null);
    if (bytes && needles.some((text) => bytes.includes(text))) found.push(path);
  }
  return found;
}

test.concurrent("after erase nothing is left of a person, and no later run brings anything back", {
  timeout: TIME_LIMIT_MS,
}, async () => {
  const setting = await makeFilled();
  const subject = await pickSubject(setting);
  expect(await findTraces(setting, subject)).toContain("person_data.person_relative");

  const planned = await runJson(["erase", "--pid", subject.pid, "--dry-run"], setting);
  expect([planned.code, planned.document.status, planned.document["pids"]]).toEqual([0, "planned", 1]);
  const refused = await runJson(["erase", "--pid", subject.pid], setting);
  expect([refused.code, refused.document.error?.code]).toEqual([3, "confirmation"]);
  expect(await findTraces(setting, subject)).toContain("person_data.person");

  const erased = await runJson(["--log-level", "trace", "erase", "--pid", subject.pid, "--yes"], setting);
  expect([erased.code, erased.document.status]).toEqual([0, "done"]);
  expect(erased.document["rows"]).toEqual(planned.document["rows"]);
  for (const text of [subject.pid, ...subject.texts])
    expect(erased.stdout + erased.stderr).not.toContain(text);
  expect(await findTraces(setting, subject)).toEqual([]);

  const plan = await runJson(["plan"], setting);
  expect(plan.document["jobs"]).toMatchObject([{ records_suppressed: 1 }, {}, { records_suppressed: 1 }]);
  const again = await runJson(["run", "--resend", "--yes"], setting);
  expect([again.code, again.document["jobs"]]).toMatchObject([
    0,
    [{ records_suppressed: 1 }, {}, { records_suppressed: 1 }],
  ]);
  expect(await findTraces(setting, subject)).toEqual([]);

  const stones = await setting.query("SELECT service_pid, source_key FROM person_data.tombstone");
  expect(stones).toEqual(
    expect.arrayContaining([
      { service_pid: subject.pid, source_key: null },
      { service_pid: null, source_key: subject.key },
    ]),
  );
});

test.concurrent("the next run completes a killed erasure, and loads answers on disk without the person", {
  timeout: TIME_LIMIT_MS,
}, async () => {
  const setting = await makeFilled();
  const subject = await pickSubject(setting);
  const crash = (at: string) => ({ ...setting, env: { ...setting.env, PERSON_ETL_CRASH_AT: at } });
  const killedRun = await runCli(
    ["run", "enrich_customers", "--resend", "--yes"],
    crash("after_spool_fsync"),
  );
  expect(killedRun.code).toBe(null);
  const row = `customers/${subject.key}`;
  const killed = await runCli(["erase", "--source-key", row, "--yes"], crash("after_erasure_noted"));
  expect(killed.code).toBe(null);
  const { code, document } = await runJson(["run"], setting);
  expect([code, document.status]).toEqual([0, "succeeded"]);
  expect(await findTraces(setting, subject)).toEqual([]);

  // The next run loads answers on disk without the person, and completes the erasure.
  const another = await pickSubject(setting);
  await runCli(["run", "enrich_customers", "--resend", "--yes"], crash("after_spool_fsync"));
  expect((await findTraces(setting, another)).some((place) => place.startsWith("spool"))).toBe(true);
  const email = another.texts.find((text) => text.includes("@")) ?? "";
  // From standard input, so that no process list shows them.
  await writeFile(join(setting.cwd, "who"), `${email}\n`);
  const erased = await runJson(["erase", "--email", "-", "--yes"], { ...setting, limit: "exec < who" });
  expect([erased.code, erased.document.status, erased.document["waiting_for"]]).toEqual([
    3,
    "pending",
    [{ kind: "received_answers", name: "enrich_customers" }],
  ]);
  expect((await runJson(["run"], setting)).code).toBe(0);
  expect(await findTraces(setting, another)).toEqual([]);
});

test.concurrent("an erasure waits for answers on the disk of another machine until they are loaded or the disk is given up", {
  timeout: TIME_LIMIT_MS,
}, async () => {
  const setting = await makeFilled();
  const folder = join(setting.cwd, ".person-etl");
  const crash = { ...setting, env: { ...setting.env, PERSON_ETL_CRASH_AT: "after_spool_fsync" } };
  const erase = async () => {
    // As if thirty seconds had passed since the kill.
    await setting.query("UPDATE person_data_state.job_lock SET expires_at = now()");
    const { pid } = await pickSubject(setting);
    const { code, document } = await runJson(["erase", "--pid", pid, "--yes"], setting);
    return [code, document["waiting_for"]];
  };
  const place = { host: hostname(), folder: join(folder, "spool") };
  const waiting = [3, [{ kind: "received_answers", name: "enrich_customers", ...place }]];
  await runCli(["run", "enrich_customers", "--resend", "--yes"], crash);
  // This machine is another one now.
  await rename(folder, `${folder}-elsewhere`);
  expect(await erase()).toEqual(waiting);
  await rm(folder, { recursive: true, force: true });
  await rename(`${folder}-elsewhere`, folder);
  expect((await runJson(["run"], setting)).code).toBe(0);
  expect(await setting.query("SELECT count(*)::int AS open FROM person_data_state.erasure_request")).toEqual([
    { open: 0 },
  ]);
  expect(await erase()).toEqual([0, []]);

  await runCli(["run", "enrich_customers", "--resend", "--yes"], crash);
  await rm(folder, { recursive: true });
  expect(await erase()).toEqual(waiting);
  const gone = `${place.host}:${place.folder}`;
  expect(await runJson(["erase", "--disk-gone", gone], setting)).toMatchObject({
    code: 0,
    document: { disk_gone: gone },
  });
  expect(await setting.query("SELECT count(*)::int AS open FROM person_data_state.erasure_request")).toEqual([
    { open: 0 },
  ]);
  expect((await runJson(["erase", "--disk-gone", gone], setting)).code).toBe(2);
});

test.concurrent("a key of several columns is found in any spelling, and a person not found is not confirmed", {
  timeout: TIME_LIMIT_MS,
}, async () => {
  const setting = await makeFilled();
  const [plain] = await setting.query(
    "SELECT source_key AS key FROM person_data.enrichment WHERE is_match ORDER BY 1 LIMIT 1",
  );
  const spelled = `customers/00${String(plain?.["key"])}`;
  const one = await runJson(["erase", "--source-key", spelled, "--dry-run"], setting);
  expect([one.code, one.document]).toMatchObject([0, { input_rows: 1, rows: { enrichment: 1 } }]);
  await setting.query(`DELETE FROM crm.customers WHERE id = ${String(plain?.["key"])}`);
  const left = await runJson(["erase", "--source-key", spelled, "--dry-run"], setting);
  expect([left.code, left.document]).toMatchObject([0, { input_rows: 1, rows: { enrichment: 1 } }]);
  await setting.query("ALTER TABLE crm.customers ADD COLUMN tenant text NOT NULL DEFAULT 'eu'");
  await setting.configure({ key: "[tenant, id]" });
  expect((await runJson(["run", "--yes"], setting)).code).toBe(0);
  const [row] = await setting.query(
    "SELECT source_key AS key FROM person_data.enrichment WHERE is_match AND source_key LIKE '[%' ORDER BY 1 LIMIT 1",
  );
  const stored = String(row?.["key"]);
  const typed = JSON.stringify(JSON.parse(stored));
  expect(typed).not.toBe(stored);
  const found = await runJson(["erase", "--source-key", `customers/${typed}`, "--dry-run"], setting);
  expect(found.document["rows"]).toMatchObject({ enrichment: expect.any(Number) });
  const odd = await runJson(["erase", "--source-key", "customers/80", "--yes"], setting);
  expect([odd.code, odd.document.error?.message]).toEqual([2, expect.stringContaining("tenant, id")]);

  const nobody = ["erase", "--pid", "p-nobody", "--yes"];
  const unknown = await runJson(nobody, setting);
  expect([unknown.code, unknown.document.status]).toEqual([1, "unknown"]);
  expect((await runJson([...nobody, "--ignore-missing"], setting)).code).toBe(0);
});

test.concurrent("an erasure names memberships at the service, and a repeat ends them and says when it was", {
  timeout: TIME_LIMIT_MS,
}, async () => {
  const setting = await makeSetting({ baseUrl: sandbox, rows: 20, jobs: pushInto("Customers") });
  expect((await runJson(["run"], setting)).code).toBe(0);
  const [row] = await setting.query(`SELECT service_pid AS pid, source_key AS key FROM person_data.resolution
    WHERE is_match ORDER BY 1 LIMIT 1`);
  const pid = ["erase", "--pid", String(row?.["pid"])];
  const key = ["erase", "--source-key", `customers/${String(row?.["key"])}`];
  const still = "till a member of 1 segment at the service";
  const textOf = async (...args: string[]) => {
    const { stdout, stderr } = await runCli(args, setting);
    return (stdout + stderr).replaceAll(/\s+/g, " ");
  };
  expect(await textOf(...pid)).toContain(`${still}: add --remove-from-segments`);
  expect(await textOf(...pid, "--dry-run")).toContain(`${still}: add --remove-from-segments`);
  expect(await textOf(...pid, "--dry-run", "--remove-from-segments")).not.toContain(still);
  const erased = await textOf(...pid, "--yes");
  expect(erased).toContain("✓ Erased 1 PID");
  expect(erased).toContain(`${still}: to remove them there, repeat with --pid PID --remove-from-segments.`);

  const today = new Date().toISOString().slice(0, 10);
  expect(await textOf(...key, "--yes")).toContain(`✓ Already erased on ${today}: no table has rows of`);
  expect(await textOf(...pid, "--dry-run")).toContain(`Already erased on ${today}.`);
  expect(await textOf(...pid)).toContain(`(0 rows; already erased on ${today})`);
  const repeat = await textOf(...pid, "--yes", "--remove-from-segments");
  expect(repeat).toContain(`✓ Already erased on ${today}`);
  expect(repeat).toContain("from all known segments (1): it removed 1 membership.");
  const again = await runJson([...pid, "--yes", "--remove-from-segments"], setting);
  expect([again.code, again.document]).toMatchObject([
    0,
    { status: "done", segments_left: 1, memberships_removed: 0, already_erased_at: expect.any(String) },
  ]);
  expect(
    await textOf("erase", "--email", "nobody@nowhere.example", "--yes", "--remove-from-segments"),
  ).toContain("No PID of them is known");
});

test.concurrent("an erasure prints its receipt if the service fails after the rows are gone", {
  timeout: TIME_LIMIT_MS,
}, async (context) => {
  let removals = 0;
  const baseUrl = await startProxy(context, (path, response) => {
    if (!path.endsWith("/members/remove") || ++removals === 1) return;
    response
      .writeHead(400, { "content-type": "application/json" })
      .end('{"error":{"code":"invalid_request"}}');
  });
  const setting = await makeSetting({ baseUrl, rows: 20, jobs: pushInto("Left") });
  expect((await runJson(["run"], setting)).code).toBe(0);
  const [row] = await setting.query(
    "SELECT service_pid AS pid FROM person_data.resolution WHERE is_match LIMIT 1",
  );
  const args = ["erase", "--pid", String(row?.["pid"]), "--yes", "--remove-from-segments"];
  const { code, document } = await runJson(args, setting);
  expect([code, document]).toMatchObject([
    3,
    { status: "done", memberships_removed: 1, segments_error: expect.any(String) },
  ]);
});

test.concurrent("an erasure says that a run may add someone to a segment again, and needs the organization's key", {
  timeout: TIME_LIMIT_MS,
}, async (context) => {
  const [held, asked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const baseUrl = await startProxy(context, async (path) => {
    if (!path.endsWith("/members/add")) return;
    asked.resolve();
    await held.promise;
  });
  const setting = await makeSetting({ baseUrl, rows: 20, jobs: pushInto("Held") });
  const run = startCli(["run", "--yes"], setting);
  await asked.promise;
  const pids = "SELECT DISTINCT service_pid AS pid FROM person_data.resolution WHERE is_match ORDER BY 1";
  const [first] = await setting.query(pids);
  const args = ["erase", "--pid", String(first?.["pid"]), "--yes", "--remove-from-segments"];
  const foreign = { ...setting, env: { ...setting.env, PERSON_SERVICE_API_KEY: "org-another-key" } };
  const refused = await runCli(["--json", ...args], foreign);
  expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining("another_organization")]);
  expect(await setting.query(pids)).toContainEqual(first);
  const { code, stdout } = await runCli(args, setting);
  expect([code, stdout.replaceAll(/\s+/g, " ")]).toEqual([
    3,
    expect.stringContaining("! A run that is still working may add them to a segment again"),
  ]);
  held.resolve();
  await run.result;
});

test.concurrent("an address that others have too stays, is listed for the user, and is in no log", {
  timeout: TIME_LIMIT_MS,
}, async () => {
  const setting = await makeSetting({ rows: 20, baseUrl: sandbox });
  const office = "office@shared.example";
  await setting.query(`UPDATE crm.customers SET work_email = '${office}' WHERE id <= 3`);
  expect((await runJson(["run"], setting)).code).toBe(0);
  const row = ["erase", "--source-key", "customers/1"];
  const planned = await runJson([...row, "--dry-run"], setting);
  const shared: unknown = planned.document["shared_email_addresses"];
  expect(shared).toContain(office);
  expect((await runCli([...row, "--dry-run"], setting)).stdout).toContain(`\n  ${office}\n`);
  const erased = await runJson(["--log-level", "trace", ...row, "--yes"], setting);
  expect([erased.code, erased.document]).toMatchObject([
    0,
    { shared_email_addresses: shared, input_rows: 1 },
  ]);
  expect(erased.stderr).not.toContain(office);
});

test.concurrent("people erased with one key aren't searched for with another", {
  timeout: TIME_LIMIT_MS,
}, async () => {
  const setting = await makeFilled(5);
  expect((await runJson(["erase", "--source-key", "customers/1", "--yes"], setting)).code).toBe(0);
  await setting.configure({}, 'privacy: { erasure_key: "${ERASURE_KEY}" }\n');
  const keyed = { ...setting, env: { ...setting.env, ERASURE_KEY: "b7f3-unlike-the-first" } };
  for (const command of [["run"], ["plan"], ["erase", "--pid", "p", "--yes"]]) {
    const { code, document, stdout, stderr } = await runJson(command, keyed);
    expect([code, document.error?.code]).toEqual([2, "erasure_key_mismatch"]);
    expect(stdout + stderr).not.toContain("b7f3-unlike");
  }
  const checked = await runJson(["check"], keyed);
  expect([checked.code, checked.stdout.includes("is not the key of this warehouse")]).toEqual([2, true]);
});

test.concurrent("erase doesn't start if it can't search for the person", async () => {
  const setting = await makeSetting();
  const { code, document } = await runJson(["erase", "--pid", "p", "--yes"], setting);
  expect([code, document.error?.code, document.error?.problems?.[0]?.path]).toEqual([
    2,
    "inputs",
    "inputs.customers.table",
  ]);
  expect(await setting.query("SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'person_data'")).toEqual(
    [],
  );
});

test.concurrent("erase refuses nobody, a blank, and a key without a source", async () => {
  const setting = await makeSetting();
  for (const args of [[], ["--pid", " "], ["--source-key", "4711"]]) {
    const { code, document } = await runJson(["erase", ...args, "--yes"], setting);
    expect([code, document.error?.code]).toEqual([2, "usage"]);
  }
});
