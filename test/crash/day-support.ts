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
import type { Setting } from "../cli/support/setting.ts";
import { givePort, removeDatabase } from "../support/embedded-files.ts";
import { forward, startServer } from "../support/http-proxy.ts";
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

/** Call of a job, as the door saw it. */
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

/** Opens a door before the service that records what is sent and received whole. */
export async function openDoor(origin: string) {
  const calls: Call[] = [];
  const found: Found[] = [];
  const door = { url: "", calls, found, /** Round under way. */ round: 0 };

  function begin(request: IncomingMessage, bytes: Buffer): Call | null {
    if (request.method !== "POST") return null;
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
    if (call && plain !== null) learn(call, fieldsOf(plain));
    return response.end(body, () => {
      if (!call || plain === null) return;
      // A process that was killed may have received it anyway.
      if (response.destroyed) call.omitted = 0;
      else call.isWhole = true;
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
  /** Address of the service, for its controls. */
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
  const theirs = door.found.filter(({ pid }) => pids.has(pid));
  const isTheirs = (address: string) =>
    addresses.has(address) || theirs.some(({ text }) => text.includes(`"${address}"`));
  const values = erasures.flatMap((one) => [
    ...one.addresses,
    ...(one.by === "source-key" ? [] : [one.value]),
  ]);
  return {
    pids,
    keys,
    /** Texts in lower case that must be nowhere. */
    needles: [...new Set([...pids, ...values])].map((text) => text.toLowerCase()),
    /** True for a row that is, equals or shares an address with an erased one, or whose answer was an erased person. */
    mayMiss: (row: CustomerRow) =>
      keys.has(String(row.id)) ||
      [...signatures, ...theirs.map(({ signature }) => signature)].includes(signatureOf(row)) ||
      addressesOf(row).some(isTheirs),
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

/** Rows of the input have an answer or a reject, present ones show a person found for their content, who is stored; but for who was erased. */
export async function checkRows(day: Day, erased: Erased): Promise<void> {
  const { door, setting, totals, broken } = day;
  const rows = new Map(presentRows(day).map((row) => [String(row.id), row]));
  const rejects = await setting.query(
    "SELECT job, source_key AS key FROM person_data.reject WHERE resolved_at IS NULL",
  );
  for (const table of ["resolution", "enrichment"]) {
    const shown = await setting.query(
      `SELECT job, source_key AS key, is_present, service_pid AS pid, service_pid IS NULL OR '${table}' = 'resolution'
         OR EXISTS (SELECT FROM person_data.person AS p WHERE p.service_pid = t.service_pid) AS is_stored FROM person_data.${table} AS t`,
    );
    const known = new Set([...shown, ...rejects.filter(({ job }) => job === shown[0]?.["job"])].map(keyIn));
    const missing = [...rows].filter(([key, row]) => !known.has(key) && !erased.mayMiss(row));
    totals.lost += missing.length;
    broken.push(...missing.map(([key]) => `${table}: row ${key} has neither an answer nor a reject`));
    for (const { key, pid } of shown.filter((one) => one["is_present"] === true)) {
      const row = rows.get(String(key));
      const isFound = row && door.found.some((one) => one.pid === pid && one.signature === signatureOf(row));
      if (isFound !== true)
        broken.push(`${table}: row ${String(key)} shows ${String(pid)}, who isn't its answer`);
    }
    const unstored = shown.filter((one) => one["is_present"] === true && one["is_stored"] !== true);
    totals.lost += unstored.length;
    broken.push(...unstored.map(({ pid }) => `${table}: ${String(pid)} is not stored`));
  }
}

const keyIn = ({ key }: Fields) => String(key);

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
