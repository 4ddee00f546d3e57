import { expect, test } from "vitest";
import { parseFaults } from "../../../packages/sandbox/src/start-sandbox.ts";
import { type PersonTruth, readPeople } from "../plain-people.ts";
import {
  canonicalJson,
  type ColumnTypes,
  extraOf,
  isPlain,
  microseconds,
  parsePlain,
  type Plain,
  readFields,
  storable,
  storedCell,
} from "../plain-reading.ts";
import { type RecordedAnswer, startRecordingProxy } from "./recording-proxy.ts";
import { startWorld, unaccountedRows, type World } from "../world.ts";

/** Distortions come first, so that duplicates repeat the distorted result. */
const FAULTS = [
  "unknown_fields:0.4,wrong_types:0.6,wrong_elements:0.4,nul_text:0.6,lone_surrogates:0.6,null_lists:0.4",
  "exponent_numbers:0.3,decimal_strings:0.3,huge_integers:0.4,long_decimals:0.4,owner_spellings:0.6",
  "shuffled:0.5,duplicated:0.5,missing:0.3,foreign:0.3",
  "429=0:0.05,429_bare:0.03,503:0.08,500:0.02,502:0.02,cut_before:0.03,cut_body:0.03,truncated_json:0.02,reply_lost:0.02",
  "413=70@enrich,413=300@resolve,413=500@validate_emails",
].join(",");

/** A result and its call. */
interface Answer {
  readonly result: Plain;
  readonly apiRequestId: string;
  /** See {@link microseconds}. */
  readonly completedAt: string;
}

/** Results by sent record (canonical, without its id), the newest last; and all of them in that order. */
function pairAnswers(recorded: readonly RecordedAnswer[], path: string) {
  const calls = recorded
    .filter((answer) => answer.path === path)
    .flatMap(({ request, response }) => {
      try {
        return [{ request: parsePlain(request), response: parsePlain(response) }];
      } catch {
        return []; // truncated: unreadable
      }
    })
    .map(({ request, response }) => {
      if (!isPlain(request) || !isPlain(response)) throw new Error("no objects");
      const { records, results } = { records: request["records"], results: response["results"] };
      if (!Array.isArray(records) || !Array.isArray(results)) throw new Error("no lists");
      const completedAt = microseconds(String(response["request_completed_at"])) ?? "";
      return {
        records,
        results: results.filter(isPlain),
        completedAt,
        apiRequestId: String(response["api_request_id"]),
      };
    })
    .toSorted((a, b) => Number(a.completedAt) - Number(b.completedAt));
  const byRecord = new Map<string, Answer>();
  const inOrder: Answer[] = [];
  for (const { records, results, ...call } of calls) {
    const byId = new Map<unknown, Plain>();
    for (const result of results) {
      const id = result["record_id"] ?? result["email_address"];
      if (!byId.has(id)) byId.set(id, result);
    }
    for (const sent of records) {
      const { record_id: id, ...record } = isPlain(sent) ? sent : { record_id: sent };
      const result = byId.get(id);
      if (!result) continue;
      const answer = { result, ...call };
      byRecord.set(isPlain(sent) ? canonicalJson(record) : String(sent), answer);
      inOrder.push(answer);
    }
  }
  return { byRecord, inOrder };
}

async function columnsOf(world: World, table: string): Promise<ColumnTypes> {
  const rows = await world.rows(
    `SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'person_data' AND table_name = '${table}'`,
  );
  return Object.fromEntries(rows.map((row) => [row["column_name"] ?? "", row["data_type"] ?? ""]));
}

/** Rows of a table in comparable form, without `_synced_at` and `_run_id`. */
async function storedRows(world: World, table: string): Promise<Record<string, string | null>[]> {
  const columns = await columnsOf(world, table);
  const kept = Object.keys(columns).filter(
    (name) => !["_synced_at", "_run_id", "_record_synced_at"].includes(name),
  );
  const rows = await world.rows(
    `SELECT ${kept.map((name) => (columns[name] === "ARRAY" ? `to_json("${name}")::text AS "${name}"` : `"${name}"::text`)).join(", ")} FROM person_data.${table}`,
  );
  return rows.map((row) =>
    Object.fromEntries(kept.map((name) => [name, storedCell(row[name] ?? null, columns[name] ?? "")])),
  );
}

function sorted(rows: readonly Record<string, string | null>[]): string[] {
  return rows
    .map((row) => JSON.stringify(Object.entries(row).toSorted(([a], [b]) => (a < b ? -1 : 1))))
    .toSorted();
}

/** Compares a whole table; reports only the first differences. */
async function expectTable(
  world: World,
  table: string,
  expected: readonly Record<string, string | null>[],
): Promise<void> {
  const stored = sorted(await storedRows(world, table));
  const wanted = sorted(expected);
  const [isStored, isWanted] = [new Set(stored), new Set(wanted)];
  const difference = {
    missing: wanted.filter((row) => !isStored.has(row)).slice(0, 2),
    notAnswered: stored.filter((row) => !isWanted.has(row)).slice(0, 2),
  };
  expect({ table, ...difference }).toEqual({ table, missing: [], notAnswered: [] });
  expect(stored.length).toBe(wanted.length);
}

const isFilled = (text: string | null | undefined): text is string =>
  typeof text === "string" && text.trim() !== "";

/** Record of an input row, by the configured mapping. */
function recordOf(row: Record<string, string | null>, takes: readonly string[]): Plain {
  const filled = (...columns: string[]) => columns.map((column) => row[column]).filter(isFilled);
  const [all, emails, phones] = [
    {
      first_name: row["first_name"],
      last_name: row["last_name"],
      linkedin_url: row["linkedin"],
      address_line_1: row["street"],
      city: row["city"],
      state: row["state"],
      zipcode: row["zip"],
    },
    filled("email", "work_email"),
    filled("phone"),
  ];
  const scalars = Object.entries(all).filter(([name, value]) => isFilled(value) && takes.includes(name));
  return {
    ...Object.fromEntries(scalars),
    ...(emails.length > 0 ? { emails } : {}),
    ...(phones.length > 0 ? { phones } : {}),
  };
}

const RESOLVE_FIELDS = ["first_name", "last_name"];
const ENRICH_FIELDS = [...RESOLVE_FIELDS, "linkedin_url", "address_line_1", "city", "state", "zipcode"];

/** Expected row of `resolution` or `enrichment`. */
function answerRow(
  job: string,
  sourceKey: string,
  { result, apiRequestId, completedAt }: Answer,
  columns: ColumnTypes,
) {
  const answerColumns = Object.fromEntries(
    Object.entries(columns).filter(([name]) =>
      ["is_match", "service_pid", "match_score", "is_resolvable_record", "validation_errors"].includes(name),
    ),
  );
  const isMatch = result["is_match"] === true;
  const { cells, extra } = readFields(result, answerColumns, new Set(["record_id"]));
  // The person of a match is in `person`; without a match, all values stay with the answer.
  const kept = Object.entries(extra).filter(([name, value]) => {
    if (job === "resolve_customers") return true;
    if (isMatch) return name in answerColumns;
    const isEmpty = value === null || (Array.isArray(value) && value.length === 0);
    return !isEmpty || name === "sandbox_new_field";
  });
  return {
    job,
    source: "customers",
    source_key: sourceKey,
    ...Object.fromEntries(Object.keys(answerColumns).map((name) => [name, null])),
    ...cells,
    is_present: String(isMatch),
    api_request_id: apiRequestId,
    request_completed_at: completedAt,
    first_matched_at: isMatch ? completedAt : null,
    last_matched_at: isMatch ? completedAt : null,
    last_matched_service_pid: isMatch ? String(result["service_pid"]) : null,
    _extra: extraOf(Object.fromEntries(kept)),
  };
}

test("every value in the warehouse equals the service's answer, under any faults", async () => {
  const world = await startWorld({ rows: 4000, people: 6000, seed: 11, faults: parseFaults(FAULTS) });
  const proxy = await startRecordingProxy(world.sandbox.url);
  world.serviceUrl = proxy.url;
  // A batch that is lost twice stays due.
  for (let night = 1; ; night++) {
    const report = await world.run();
    expect(report.jobs.map(unaccountedRows)).toEqual([0, 0, 0]);
    if (report.status === "succeeded") break;
    expect(night).toBeLessThan(15);
  }

  // Addresses.
  const validated = pairAnswers(proxy.answers, "/v2/validate_emails").byRecord;
  const validationColumns = await columnsOf(world, "email_validation");
  const validations = [...validated].map(([address, { result, apiRequestId, completedAt }]) => {
    const { cells, extra } = readFields(result, validationColumns, new Set(["email_address"]));
    return {
      email_address: address,
      is_match: null,
      email_validation_status: null,
      email_last_seen: null,
      ...cells,
      previous_status: null,
      // A first answer is no change.
      status_changed_at: null,
      api_request_id: apiRequestId,
      request_completed_at: completedAt,
      _extra: extraOf(extra),
    };
  });
  expect(validations.length).toBeGreaterThan(4000);
  await expectTable(world, "email_validation", validations);

  // Each input row's answer.
  const customers = await world.rows("SELECT *, id::text AS key FROM crm.customers");
  const invalid = new Set(
    validations.filter((row) => row.email_validation_status === "invalid").map((row) => row.email_address),
  );
  const resolved = pairAnswers(proxy.answers, "/v1/resolve");
  const enriched = pairAnswers(proxy.answers, "/v2/enrich");
  const resolutionColumns = await columnsOf(world, "resolution");
  const enrichmentColumns = await columnsOf(world, "enrichment");
  const resolutions: Record<string, string | null>[] = [];
  const enrichments: Record<string, string | null>[] = [];
  // Records missing from two answers are rejected; the order of calls decides which.
  const addresses = customers.flatMap((row) =>
    [recordOf(row, ENRICH_FIELDS)["emails"] ?? []].flat().map(String),
  );
  const unanswered = [...new Set(addresses)]
    .filter((address) => !validated.has(address))
    .map((address) => `validate_customers ${address}`);
  for (const row of customers) {
    const key = row["key"] ?? "";
    const record = recordOf(row, RESOLVE_FIELDS);
    const isUsable =
      "first_name" in record && "last_name" in record && ("emails" in record || "phones" in record);
    const resolution = isUsable ? resolved.byRecord.get(canonicalJson(record)) : undefined;
    if (resolution) resolutions.push(answerRow("resolve_customers", key, resolution, resolutionColumns));
    else unanswered.push(`resolve_customers ${key}`);

    const { emails, ...rest } = recordOf(row, ENRICH_FIELDS);
    const valid = Array.isArray(emails)
      ? emails.filter((email) => !invalid.has(storable(String(email))))
      : [];
    const pid =
      resolution?.result["is_match"] === true ? { service_pid: resolution.result["service_pid"] } : {};
    const sent = { ...rest, ...(valid.length > 0 ? { emails: valid } : {}), ...pid };
    const enrichment = enriched.byRecord.get(canonicalJson(sent));
    if (enrichment) enrichments.push(answerRow("enrich_customers", key, enrichment, enrichmentColumns));
    else unanswered.push(`enrich_customers ${key}`);
  }
  await expectTable(world, "resolution", resolutions);
  await expectTable(world, "enrichment", enrichments);
  const rejects = await world.rows(
    "SELECT job, source_key FROM person_data.reject WHERE resolved_at IS NULL",
  );
  expect(rejects.map((row) => `${row["job"]} ${row["source_key"]}`).toSorted()).toEqual(
    unanswered.toSorted(),
  );

  // The people.
  const tables = await personTables(world);
  const people: PersonTruth = readPeople(
    enriched.inOrder.filter(({ result }) => result["is_match"] === true).map(({ result }) => result),
    tables,
  );
  expect(people.person?.length).toBeGreaterThan(2500);
  for (const [table, rows] of Object.entries(people)) await expectTable(world, table, rows);

  // Faults occurred, and were recorded.
  const drift = await world.rows(
    "SELECT DISTINCT kind || ' ' || observed_type AS seen FROM person_data_ops.schema_drift",
  );
  const seen = drift.map((row) => row["seen"]);
  expect(seen).toContain("unexpected_type nul_character");
  expect(seen).toContain("unexpected_type lone_surrogate");
  expect(seen.filter((kind) => kind?.startsWith("unknown_field")).length).toBeGreaterThan(0);
  const statuses = await world.rows("SELECT DISTINCT http_status AS status FROM person_data_ops.api_call");
  expect(statuses.map((row) => row["status"])).toEqual(expect.arrayContaining(["200", "413", "429", "503"]));
}, 300_000);

async function personTables(world: World): Promise<Record<string, ColumnTypes>> {
  const names = [
    "person",
    "person_email",
    "person_phone",
    "person_relative",
    "person_address",
    "person_work_experience",
    "person_education_experience",
  ];
  const columns: Record<string, ColumnTypes> = {};
  for (const name of names) columns[name] = await columnsOf(world, name);
  return columns;
}
