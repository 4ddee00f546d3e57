import { copyFile, readdir, readFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { DuckDBInstance } from "@duckdb/node-api";
import { onTestFinished } from "vitest";
import { surveySpool } from "../../src/spool/files.ts";
import { makeFolder } from "../cli/support/cli.ts";
import { ENDS } from "../cli/support/ends.ts";
import { runHereJson } from "../cli/support/in-process.ts";
import { configText, type Setting } from "../cli/support/setting.ts";
import { findDifferences, MEMORY, readContents, type TableContents } from "../support/comparable-tables.ts";
import { givePort, removeDatabase } from "../support/embedded-files.ts";
import { forward, startServer } from "../support/http-proxy.ts";
import { takeMigratedDatabase } from "../support/migrated-database.ts";
import { runSql } from "../support/run-sql.ts";
import { openStoppableDatabase, type StoppableDatabase } from "../support/stoppable-database.ts";
import { ledgerAt } from "../support/sandbox-control.ts";
import { recordsInDoubt } from "./kill-support.ts";

/** Row of the input. */
export interface CustomerRow {
  readonly id: number;
  readonly first_name: string | null;
  readonly last_name: string | null;
  readonly email: string | null;
  readonly work_email: string | null;
  readonly phone: string | null;
  readonly city: string | null;
}

/** Every version that a key has had; the last one is in the input `copies` times. */
export interface Customer {
  readonly versions: CustomerRow[];
  copies: number;
}

/** Key of the warehouse under test; other keys reach a service of their own. */
export const PRODUCTION_KEY = "production-key";

type Fields = Readonly<Record<string, unknown>>;

const normalized = (text: unknown) => (typeof text === "string" ? text.trim().toLowerCase() : "");

/** Addresses of a row. */
export function addressesOf({ email, work_email }: CustomerRow): readonly string[] {
  return [email, work_email].map(normalized).filter((address) => address !== "");
}

/** Values that a row shares with the records made from it; addresses found invalid aren't in every record. */
export function signatureOf(from: object): string {
  const row: Fields = { ...from };
  const phones: unknown = row["phones"] ?? [row["phone"]];
  const phone = Array.isArray(phones) ? normalized(phones[0]) : "";
  return [row["first_name"], row["last_name"], row["city"]].map(normalized).concat(phone).join("|");
}

/** Call of production, as the door saw it. */
export interface Call {
  readonly round: number;
  readonly path: string;
  /** Records in the order sent; an address for validation. */
  readonly records: readonly unknown[];
  /** True once a whole, readable answer was handed to the connection. */
  isWhole: boolean;
  requestId: string | null;
  /** Records without a result in a whole answer. */
  omitted: number;
}

/** Answer with a PID. */
export interface Found {
  readonly signature: string;
  readonly sentPid: string | null;
  readonly pid: string;
  /** Result and record, as JSON in lower case. */
  readonly text: string;
}

export type Door = Awaited<ReturnType<typeof openDoor>>;

const fieldsOf = (value: unknown): Fields =>
  typeof value === "object" && value !== null ? { ...value } : {};
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** Opens a door before the service that records what production sends and receives whole; other keys than its reach another service. */
export async function openDoor(production: string, others: string) {
  const calls: Call[] = [];
  const found: Found[] = [];
  const door = { url: "", calls, found, /** Round under way. */ round: 0 };

  function begin(request: IncomingMessage, bytes: Buffer): Call | null {
    if (request.method !== "POST" || request.headers["x-api-key"] !== PRODUCTION_KEY) return null;
    const plain = request.headers["content-encoding"] === "gzip" ? gunzipSync(bytes) : bytes;
    const { records } = fieldsOf(JSON.parse(plain.toString("utf8")));
    const path = request.url ?? "";
    const call = {
      round: door.round,
      path,
      records: listOf(records),
      isWhole: false,
      requestId: null,
      omitted: 0,
    };
    calls.push(call);
    return call;
  }

  function learn(call: Call, answer: Fields): void {
    const results = listOf(answer["results"]).map(fieldsOf);
    call.requestId = String(answer["api_request_id"]);
    const records = new Map(
      call.records.map((record) => [String(fieldsOf(record)["record_id"] ?? record), record]),
    );
    const answered = new Set<string>();
    for (const result of results) {
      const id = String(result["record_id"] ?? result["email_address"]);
      const record = fieldsOf(records.get(id));
      if (records.has(id)) answered.add(id);
      const [pid, sent] = [result["service_pid"], record["service_pid"]];
      if (typeof pid !== "string") continue;
      const sentPid = typeof sent === "string" ? sent : null;
      const text = JSON.stringify([result, record]).toLowerCase();
      found.push({ signature: signatureOf(record), sentPid, pid, text });
    }
    call.omitted = records.size - answered.size;
  }

  const { url, close } = await startServer(async (request, response, asked) => {
    const call = begin(request, asked);
    const origin = request.headers["x-api-key"] === PRODUCTION_KEY ? production : others;
    const { status, headers, body } = await forward(origin, request, asked);
    response.writeHead(status, headers);
    // A body that was cut arrives cut.
    if (body === null) return response.write("{", () => response.destroy());
    let plain: unknown = null;
    try {
      plain = status === 200 ? JSON.parse(body.toString("utf8")) : null;
    } catch {
      // Half of the JSON.
    }
    return response.end(body, () => {
      if (!call || plain === null || response.destroyed) return;
      call.isWhole = true;
      learn(call, fieldsOf(plain));
    });
  });
  onTestFinished(close);
  door.url = url;
  return door;
}

/** Starts a Postgres of its own, in a folder of its own. */
export async function startOwnDatabase(): Promise<StoppableDatabase> {
  const dataDir = await makeFolder();
  onTestFinished(() => removeDatabase(dataDir));
  await givePort(dataDir);
  return await openStoppableDatabase(dataDir);
}

/** A person named for erasure. */
export interface Erasure {
  readonly by: "pid" | "email" | "source-key";
  readonly value: string;
  /** Addresses of the named row, without those that others had. */
  readonly addresses: Set<string>;
}

/** Totals of a day. */
export interface Totals {
  readonly seed: number;
  rounds: number;
  kills: number;
  serverCrashes: number;
  /** Sessions terminated. */
  cutSessions: number;
  erasures: number;
  /** Distinct records that the service received. */
  records: number;
  sentTwice: number;
  /** Records of calls in doubt, and those that the service charged and left out. */
  mostSentTwice: number;
  lost: number;
  doubled: number;
  leftAfterErasure: number;
}

/** A warehouse, its input and service, and what has happened to them. */
export interface Day {
  readonly server: StoppableDatabase;
  /** Address of production's service, for its controls. */
  readonly sandbox: string;
  readonly door: Door;
  readonly setting: Setting;
  readonly input: Map<number, Customer>;
  readonly erasures: Erasure[];
  /** Number of runs killed, by round. */
  readonly killed: Map<number, number>;
  /** Laws broken in this round. */
  readonly broken: string[];
  readonly totals: Totals;
}

/** Rows of the input; with `copies`, as often as they are in it. */
export function presentRows(
  { input }: Pick<Day, "input">,
  { copies: withCopies = false } = {},
): readonly CustomerRow[] {
  return [...input.values()].flatMap(({ versions, copies }) => {
    const row = versions.at(-1);
    return row ? Array.from({ length: withCopies ? copies : Math.min(1, copies) }, () => row) : [];
  });
}

/** Creates the input's table; keys may repeat. */
export async function createInput(url: string, rows: readonly CustomerRow[]): Promise<void> {
  await runSql(
    url,
    `CREATE SCHEMA crm; CREATE TABLE crm.customers (id bigint, first_name text, last_name text, email text, work_email text, phone text, city text)`,
  );
  await insertRows(url, rows);
}

/** Inserts rows of the input. */
export async function insertRows(url: string, rows: readonly CustomerRow[]): Promise<void> {
  const insert =
    "INSERT INTO crm.customers SELECT * FROM json_populate_recordset(NULL::crm.customers, $1::json)";
  await runSql(url, insert, [JSON.stringify(rows)]);
}

/** People erased by the tombstones, and what may follow from that. */
type Erased = Awaited<ReturnType<typeof readErased>>;

/** Reads who was erased; breaks a law if somebody was who isn't named by any erasure. */
export async function readErased(day: Day) {
  const { erasures, input, door } = day;
  const stones = await day.setting.query(
    "SELECT service_pid AS pid, source_key AS key FROM person_data.tombstone",
  );
  const textsOf = (name: string) =>
    new Set(stones.map((row) => row[name]).filter((text) => typeof text === "string"));
  const [pids, keys] = [textsOf("pid"), textsOf("key")];
  checkScope(day, pids, keys);
  const versions = [...keys].flatMap((key) => input.get(Number(key))?.versions ?? []);
  const signatures = new Set(versions.map(signatureOf));
  const named = erasures.filter(({ by }) => by === "email").map(({ value }) => value);
  const addresses = new Set([...named, ...versions.flatMap(addressesOf)]);
  const theirs = door.found.filter(({ pid }) => pids.has(pid)).map(({ text }) => text);
  const isTheirs = (address: string) =>
    addresses.has(address) || theirs.some((text) => text.includes(`"${address}"`));
  const values = erasures.flatMap((one) => [
    ...one.addresses,
    ...(one.by === "source-key" ? [] : [one.value]),
  ]);
  return {
    pids,
    keys,
    /** Texts in lower case that must be nowhere. */
    needles: [...new Set([...pids, ...values])].map((text) => text.toLowerCase()),
    /** True for a row that is, equals or shares an address with an erased one; and for such an address. */
    mayMiss: (row: CustomerRow | string) =>
      typeof row === "string"
        ? isTheirs(row)
        : keys.has(String(row.id)) || signatures.has(signatureOf(row)) || addressesOf(row).some(isTheirs),
  };
}

/** Only who was named is erased: a row leads to its PIDs, an address to rows and people, a PID to its rows and to PIDs answered for it. */
function checkScope({ input, door, erasures, broken }: Day, ...found: readonly ReadonlySet<string>[]): void {
  const may = new Set<string>();
  const customers = [...input];
  for (const { by, value } of erasures) {
    const rows = customers.filter(([id, { versions }]) => {
      if (by === "source-key") return String(id) === value;
      return by === "email" && versions.some((row) => addressesOf(row).includes(value));
    });
    const signatures = new Set(rows.flatMap(([, { versions }]) => versions.map(signatureOf)));
    const pids = new Set(by === "pid" ? [value] : []);
    for (const { signature, pid, text } of door.found)
      if (signatures.has(signature) || (by === "email" && text.includes(`"${value}"`))) pids.add(pid);
    for (const { sentPid, pid } of door.found) if (sentPid !== null && pids.has(sentPid)) pids.add(pid);
    const answered = new Set(door.found.filter(({ pid }) => pids.has(pid)).map((one) => one.signature));
    for (const pid of pids) may.add(pid);
    for (const [id] of rows) may.add(String(id));
    for (const [id, { versions }] of customers)
      if (versions.some((row) => answered.has(signatureOf(row)))) may.add(String(id));
  }
  const others = found.flatMap((all) => [...all]).filter((one) => !may.has(one));
  if (others.length > 0) broken.push(`others were erased, too: ${others.join(", ")}`);
}

/** Nobody is sent who was erased before these calls. */
export function checkSent(day: Day, erased: Erased, calls: readonly Call[]): void {
  const rows = presentRows(day);
  const isGone = ({ id }: CustomerRow) => erased.keys.has(String(id));
  const stay = new Set(rows.filter((row) => !isGone(row)).map(signatureOf));
  const gone = new Set(
    rows
      .filter(isGone)
      .map(signatureOf)
      .filter((one) => !stay.has(one)),
  );
  for (const { path, records } of calls)
    for (const record of records) {
      const text = JSON.stringify(record).toLowerCase();
      const found = erased.needles.filter((needle) => text.includes(`"${needle}"`));
      if (gone.has(signatureOf(fieldsOf(record)))) found.push(signatureOf(fieldsOf(record)));
      day.totals.leftAfterErasure += found.length;
      day.broken.push(...found.map((one) => `${path} got somebody who had been erased: ${one}`));
    }
}

const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`;

/** Nothing is left of the erased in any table, in the copy, or in a file. */
export async function checkTraces(
  { setting, erasures, totals, broken }: Day,
  { needles }: Erased,
): Promise<void> {
  if (erasures.length === 0) return;
  const { cwd, query } = setting;
  const places: string[] = [];
  // Tombstones are what copies of the tables delete by. Some contents are addresses as bytes.
  const texts = needles.flatMap((text) => [text, Buffer.from(text).toString("hex")]);
  const tables = await query(`SELECT table_schema || '.' || table_name AS name FROM information_schema.tables
    WHERE table_schema IN ('person_data', 'person_data_ops', 'person_data_state') AND table_type = 'BASE TABLE'
      AND table_name <> 'tombstone'`);
  const searches = tables.map(
    ({ name }) => `SELECT '${String(name)}' AS name, min(t::text) AS row FROM ${String(name)} AS t
    WHERE EXISTS (SELECT FROM unnest(ARRAY[${texts.map(quoted).join(", ")}]) AS n WHERE strpos(lower(t::text), n) > 0)`,
  );
  for (const { name, row } of await query(searches.join(" UNION ALL ")))
    if (typeof row === "string") places.push(`${String(name)}: ${row}`);
  const keys = erasures.flatMap(({ by, value }) => (by === "source-key" ? [quoted(value)] : []));
  for (const table of ["resolution", "enrichment", "input_email", "match_history"]) {
    const rows = await query(
      `SELECT source_key AS key FROM person_data.${table} WHERE source_key IN (${["''", ...keys].join(", ")})`,
    );
    places.push(...rows.map(({ key }) => `${table}: row ${String(key)}`));
  }
  const open = await query("SELECT erasure_id AS id FROM person_data_state.erasure_request");
  places.push(...open.map(({ id }) => `the erasure ${String(id)} is still open`));
  places.push(...(await findTracesInDuckdb(join(cwd, "people.duckdb"), needles)));
  for (const path of await readdir(join(cwd, ".person-etl"), { recursive: true })) {
    const bytes = path.includes(".duckdb")
      ? null
      : await readFile(join(cwd, ".person-etl", path)).catch(() => null);
    const content = bytes?.toString("latin1").toLowerCase() ?? "";
    if (needles.some((needle) => content.includes(needle))) places.push(path);
  }
  totals.leftAfterErasure += places.length;
  broken.push(...places.map((place) => `left after erasure: ${place}`));
}

/** Searches a DuckDB file, in a copy of it: an open session locks others out. */
async function findTracesInDuckdb(path: string, needles: readonly string[]): Promise<readonly string[]> {
  const copy = join(await makeFolder(), "copy.duckdb");
  await copyFile(path, copy);
  const instance = await DuckDBInstance.create(copy, { access_mode: "READ_ONLY" });
  const connection = await instance.connect();
  try {
    const all = async (sql: string) => (await connection.runAndReadAll(sql)).getRowsJson();
    const tables = await all(`SELECT table_schema || '.' || table_name FROM information_schema.tables
      WHERE table_type = 'BASE TABLE' AND table_name <> 'tombstone'`);
    const found: string[] = [];
    for (const name of tables.flat().map((one) => (typeof one === "string" ? one : ""))) {
      const isThere = needles.map((text) => `contains(lower(CAST(t AS VARCHAR)), ${quoted(text)})`);
      const [[rows] = []] = await all(
        `SELECT count(*) FROM ${name} AS t WHERE ${["false", ...isThere].join(" OR ")}`,
      );
      if (Number(rows) > 0) found.push(`${name} in the copy`);
    }
    return found;
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

/** Every answer received whole is in the ledger, except for calls in flight at a kill; none waits any more. */
export async function checkReceived(
  { setting, door, killed, totals, broken }: Day,
  concurrency: number,
): Promise<void> {
  const rows = await setting.query(
    "SELECT api_request_id AS id FROM person_data_ops.api_call WHERE http_status = 200 AND NOT possibly_billed",
  );
  const known = new Set(rows.map(({ id }) => String(id)));
  const missing = door.calls.filter((call) => call.isWhole && !known.has(String(call.requestId)));
  for (const [round, calls] of Map.groupBy(missing, (call) => call.round)) {
    const lost = calls.length - concurrency * (killed.get(round) ?? 0);
    if (lost <= 0) continue;
    totals.lost += lost;
    broken.push(`${lost} answers that were received in round ${round} are lost`);
  }
  const { contents, quarantined } = await surveySpool(join(setting.cwd, ".person-etl", "spool"));
  broken.push(...[...contents, ...quarantined].map(({ folder }) => `answers are left in ${folder}`));
}

/** Published tables; `person_state` has hashes of an answer, which an erasure of a relative empties. */
const isCompared = (table: string) =>
  /^(?:resolution|enrichment|input_email|email_validation|person|person_(?!state)[a-z]+)$/u.test(table);

const isOfPeople = (table: string) => table.startsWith("person");

/** Published rows and open rejects of a warehouse. */
interface Published {
  readonly rows: TableContents;
  readonly rejects: readonly string[];
}

async function readPublished(url: string): Promise<Published> {
  const contents = await readContents(url, { withoutColumns: MEMORY });
  const rejects = await runSql(
    url,
    `SELECT concat_ws(' ', job, source_key, code) AS reject FROM person_data.reject WHERE resolved_at IS NULL GROUP BY 1`,
  );
  return {
    rows: new Map([...contents].filter(([table]) => isCompared(table))),
    rejects: rejects.map(({ reject }) => String(reject)),
  };
}

/** Tables of a world in which nothing ever happened, with the input of now. */
async function readUndisturbed(day: Day, { pids }: Erased): Promise<Published> {
  const database = await takeMigratedDatabase();
  try {
    await createInput(database.url, presentRows(day, { copies: true }));
    const cwd = await makeFolder({ "config.yaml": configText({ baseUrl: day.door.url }) });
    const env = { WAREHOUSE_URL: database.url, PERSON_SERVICE_API_KEY: "undisturbed-key" };
    const { code, stdout } = await runHereJson(["run", "--yes"], { cwd, env });
    if (code !== 0) throw new Error(`the undisturbed run ended with ${code}: ${stdout}`);
    // In other people's data an erasure removes what names the person.
    const erased = ["", ...pids].map(quoted).join(", ");
    await runSql(
      database.url,
      `DELETE FROM person_data.person_relative WHERE relative_service_pid IN (${erased});
       UPDATE person_data.person SET service_spouse_pid = NULL WHERE service_spouse_pid IN (${erased})`,
    );
    return await readPublished(database.url);
  } finally {
    await database.release();
  }
}

/** Published rows are those of the undisturbed world, and so are the rejects; but for who was erased. */
export async function checkRows(day: Day, erased: Erased): Promise<void> {
  const expected = await readUndisturbed(day, erased);
  const actual = await readPublished(day.setting.url);
  // The key of a validation is its address.
  const mayMiss = (key: string) =>
    erased.mayMiss(day.input.get(Number(key))?.versions.at(-1) ?? key.trim().toLowerCase());
  const namesErased = (row: string) => [...erased.pids].some((pid) => row.includes(`"${pid}"`));
  // A row whose content became an erased person's keeps the answer of its former content, which isn't present.
  const absent = await day.setting.query(
    ["resolution", "enrichment"]
      .map(
        (table) => `SELECT '${table} ' || source_key AS key FROM person_data.${table} WHERE NOT is_present`,
      )
      .join(" UNION ALL "),
  );
  const hidden = new Set(absent.map(({ key }) => String(key)));
  const wanted = new Map<string, Map<string, string>>();
  const found = new Map<string, Map<string, string>>();
  const tables = [...expected.rows].toSorted(([a], [b]) => Number(isOfPeople(a)) - Number(isOfPeople(b)));
  for (const [table, rows] of tables) {
    const theirs = actual.rows.get(table) ?? new Map<string, string>();
    // A person is stored for the rows that name them: nobody knew the PID of a row that was erased before it was answered.
    const isNamed = (pid: string) =>
      [...(wanted.get("enrichment")?.values() ?? [])].some((row) => row.includes(`"${pid}"`));
    const isHidden = (key: string) => !theirs.has(key) || hidden.has(`${table} ${key.split(" ").at(-1)}`);
    const isExcused = ([key, row]: readonly [string, string]) =>
      isOfPeople(table)
        ? !theirs.has(key) && !isNamed(key)
        : isHidden(key) && (namesErased(row) || mayMiss(key.split(" ").at(-1) ?? ""));
    const compared = new Map([...rows].filter((row) => !isExcused(row)));
    wanted.set(table, compared);
    // People that rows no longer name stay stored.
    found.set(table, new Map([...theirs].filter(([key]) => compared.has(key))));
  }
  const wrong = findDifferences(wanted, found, 20);
  const differ = (some: readonly string[], others: readonly string[]) =>
    some.filter((reject) => !others.includes(reject) && !mayMiss(reject.split(" ")[1] ?? ""));
  const ids = presentRows(day).map(({ id }) => `'${id}'`);
  const left = await day.setting.query(
    ["resolution", "enrichment"]
      .map(
        (table) =>
          `SELECT source_key AS key FROM person_data.${table} WHERE is_present AND source_key NOT IN (${ids.join(", ")})`,
      )
      .join(" UNION ALL "),
  );
  const missing = differ(expected.rejects, actual.rejects);
  // An address has no row of its own: its reject stays when the last row with it leaves.
  const addresses = new Set(presentRows(day).flatMap(addressesOf));
  const isOfLeftAddress = (reject: string) => {
    const key = reject.split(" ")[1]?.toLowerCase() ?? "";
    return key.includes("@") && !addresses.has(key);
  };
  const needless = differ(actual.rejects, expected.rejects).filter((one) => !isOfLeftAddress(one));
  day.totals.lost += wrong.length + missing.length;
  day.broken.push(
    ...wrong,
    ...missing.map((reject) => `no reject: ${reject}`),
    ...needless.map((reject) => `a reject without a cause: ${reject}`),
    ...left.map(({ key }) => `row ${String(key)} has left and is present`),
  );
}

/** Only records in doubt were carried out twice, nothing is stored twice, and the counters of every run add up. */
export async function checkCounts(day: Day): Promise<void> {
  const { setting, totals, broken } = day;
  const { contents } = await ledgerAt(day.sandbox);
  totals.records = contents.distinct_records;
  totals.sentTwice = contents.billed_again;
  const omitted = day.door.calls.reduce((sum, call) => sum + call.omitted, 0);
  totals.mostSentTwice = (await recordsInDoubt(setting)) + omitted;
  if (totals.sentTwice > totals.mostSentTwice)
    broken.push(`${totals.sentTwice} records were carried out again, ${totals.mostSentTwice} were in doubt`);
  const doubled =
    await setting.query(`SELECT job, source_key FROM person_data.match_history WHERE valid_to IS NULL
    GROUP BY job, source, source_key HAVING count(*) > 1`);
  totals.doubled += doubled.length;
  const unaccounted = await setting.query(
    `SELECT run_id, job, status FROM person_data_ops.sync_run WHERE records_read <> ${ENDS.join(" + ")}`,
  );
  broken.push(
    ...doubled.map((row) => `two open intervals: ${JSON.stringify(row)}`),
    ...unaccounted.map((row) => `rows unaccounted for: ${JSON.stringify(row)}`),
  );
}

/** The published copy equals the warehouse. */
export async function checkCopy({ setting, broken }: Day): Promise<void> {
  const { code, document } = await runHereJson(["publish", "--verify"], setting);
  const destinations = listOf(document["destinations"]).map(fieldsOf);
  const isEqual = destinations.map((one) => listOf(one["tables_differing"] ?? ["?"]).length);
  if (code !== 0 || isEqual.join() !== "0")
    broken.push(`the published copy differs (exit code ${code}): ${JSON.stringify(document)}`);
}
