import { expect, test } from "vitest";
import { parseFaults } from "../../../packages/sandbox/src/start-sandbox.ts";
import { isJsonObject, type JsonObject } from "../../../src/schemas/flatten.ts";
import { childTables, type NamedRow } from "../../schemas/named-rows.ts";
import { normalizeRecord, rebuildRecord } from "../../schemas/rebuild-record.ts";
import { startWorld, unaccountedRows, type World } from "../world.ts";
import { recordAnswers } from "./recording-proxy.ts";

/** Faults that lose, repeat, cut and shuffle answers. */
const FAULTS = [
  "unknown_fields:0.4,null_lists:0.4,shuffled:0.5,duplicated:0.5,missing:0.3,foreign:0.3",
  "429=0:0.05,429_bare:0.03,503:0.08,500:0.02,502:0.02,cut_before:0.03,cut_body:0.03,truncated_json:0.02,reply_lost:0.02",
  "413=70@enrich,413=300@resolve,413=500@validate_emails",
].join(",");

/** Parsed object; empty if the text is cut or something else. */
function parse(text: string): JsonObject {
  try {
    const parsed: unknown = JSON.parse(text);
    return isJsonObject(parsed) ? parsed : {};
  } catch {
    return {};
  }
}

const cellOf = ([name, value]: readonly [string, unknown]) => {
  const isText = typeof value === "string" || value === null;
  return [name, isText ? value : JSON.stringify(value)] as const;
};

/** Rows of a table by PID, with cells as flattening makes them. */
async function rowsOf(world: World, table: string): Promise<ReadonlyMap<string, readonly NamedRow[]>> {
  const rows = await world.rows(`SELECT row_to_json(t) AS row FROM person_data.${table} AS t`);
  const named = rows.map(({ row }) => Object.fromEntries(Object.entries(parse(row ?? "")).map(cellOf)));
  return Map.groupBy(named, (row) => row["service_pid"] ?? "");
}

test("the people in the warehouse rebuild the answers of the service, under any faults", async () => {
  const world = await startWorld({ rows: 1500, people: 3000, seed: 11, faults: parseFaults(FAULTS) });
  const recorded = await recordAnswers(world);
  // A batch that is lost twice stays due.
  for (let night = 1; ; night++) {
    const report = await world.run();
    expect(report.jobs.map(unaccountedRows)).toEqual([0, 0, 0]);
    if (report.status === "succeeded") break;
    expect(night).toBeLessThan(15);
  }
  const newest = new Map<string, JsonObject>();
  const answers = recorded
    .filter(({ path }) => path === "/v2/enrich")
    .map(({ request, response }) => ({ sent: parse(request)["records"], answer: parse(response) }));
  const timeOf = ({ answer }: (typeof answers)[number]) => String(answer["request_completed_at"]);
  for (const { sent, answer } of answers.toSorted((a, b) => (timeOf(a) < timeOf(b) ? -1 : 1))) {
    const results = answer["results"];
    const ids = new Set((Array.isArray(sent) ? sent : []).map((record: JsonObject) => record["record_id"]));
    for (const result of Array.isArray(results) ? results.filter(isJsonObject) : []) {
      // The first of two results counts.
      if (result["is_match"] === true && ids.delete(result["record_id"]))
        newest.set(String(result["service_pid"]), result);
    }
  }
  const people = await rowsOf(world, "person");
  const children = new Map<string, Awaited<ReturnType<typeof rowsOf>>>();
  for (const table of new Set(Object.values(childTables))) children.set(table, await rowsOf(world, table));
  expect([...people.keys()].toSorted()).toEqual([...newest.keys()].toSorted());
  expect(newest.size).toBeGreaterThan(900);
  for (const [pid, result] of newest) {
    const [person = {}] = people.get(pid) ?? [];
    const { _extra: extra = null, ...cells } = person;
    const scalars = Object.entries(cells).filter(([name]) => !name.startsWith("_"));
    const lists = Object.entries(childTables).map(([name, table]) => {
      const kind = name.replace("_emails", "");
      const rows = children.get(table)?.get(pid) ?? [];
      return [name, rows.filter((row) => table !== "person_email" || row["email_type"] === kind)] as const;
    });
    const {
      record_id: _id,
      is_match: _is,
      match_score: _score,
      validation_errors: _errors,
      ...answered
    } = result;
    const fields = Object.fromEntries(scalars.filter(([name]) => name in answered || cells[name] !== null));
    const rebuilt = rebuildRecord({ fields, extra, lists: Object.fromEntries(lists) });
    expect(rebuilt).toEqual(normalizeRecord(answered));
  }
  const statuses = await world.rows("SELECT DISTINCT http_status AS status FROM person_data_ops.api_call");
  expect(statuses.map((row) => row["status"])).toEqual(expect.arrayContaining(["200", "413", "429", "503"]));
}, 300_000);
