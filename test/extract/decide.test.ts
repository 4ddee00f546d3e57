import { describe, expect, it } from "vitest";
import {
  type Batch,
  type Entry,
  faultsByRecord,
  faultsOutside,
  type LookupItem,
  refusalSignature,
} from "../../src/extract/batches.ts";
import { decide, type Outcome } from "../../src/extract/decide.ts";
import type { HttpReply } from "../../src/extract/http-client.ts";
import { understandReply } from "../../src/extract/send-call.ts";
import type { ReadSummary } from "../../src/extract/take-answer.ts";
import { readErrorBody } from "../../src/schemas/error-body.ts";
import { endedCall, failure, response, someItems } from "./drive.ts";

const clock = { now: () => 0, sleep: async () => {} };

interface Given {
  readonly reply: HttpReply;
  readonly read?: ReadSummary;
  readonly records?: number;
  readonly history?: Partial<Entry<LookupItem>>;
  readonly batch?: Partial<Batch<LookupItem>>;
  readonly available?: number;
}

function batchOf({ records = 4, history = {}, batch = {} }: Omit<Given, "reply">): Batch<LookupItem> {
  const entries = someItems(records).map((item) => ({
    item,
    calls: 1,
    unansweredCalls: 0,
    wasLeftOut: false,
    ...history,
  }));
  const origin = {
    number: 0,
    size: records,
    openPieces: 1,
    failedRecords: 0,
    signature: null,
    isolationCalls: null,
  };
  return { entries, origin, refusals: 0, dueAtMs: 0, wasTight: false, ...batch };
}

/** Decides on the first call of four records. */
async function decideOn(given: Given): Promise<Outcome<LookupItem>> {
  const { reply, read = null } = given;
  const batch = batchOf(given);
  const before = structuredClone({ ...batch });
  const outcome = decide(endedCall(batch, reply), await understandReply(reply, clock), read, {
    nowMs: 1000,
    random: 0.5,
    isAnswering: true,
    passed: { records: 4, bytes: 1000 },
    capacity: { isTight: false, refusals: 0, available: 0 },
    origin: "http://service",
  });
  // Pure: the batch is as before.
  expect({ ...batch }).toEqual(before);
  return outcome;
}

const ids = (items: readonly LookupItem[]) => items.map(({ recordId }) => recordId.slice(1)).join("");

/** Outcome in a line: what happens with records `r0` to `r3`. */
function lineOf({ kind, again, rejected, setAside, sentWithoutResult, stop }: Outcome<LookupItem>): string {
  const pieces = again.map(({ entries, dueAtMs }) => {
    const wait = dueAtMs > 0 ? `@${dueAtMs}` : "";
    return `${ids(entries.map(({ item }) => item))}${wait}`;
  });
  return [
    kind,
    ...(pieces.length > 0 ? [`again ${pieces.join("|")}`] : []),
    ...rejected.map(({ code, items }) => `${code} ${ids(items)}`),
    ...setAside.map(({ code, items }) => `${code} ${ids(items)}`),
    ...(sentWithoutResult.length > 0 ? [`without_result ${ids(sentWithoutResult)}`] : []),
    ...(stop ? [`stop ${stop.code}`] : []),
  ].join(", ");
}

const answer = (...missing: number[]): ReadSummary => ({
  kind: "answer",
  missing,
  plainBytes: 9,
  apiRequestId: "x",
});
const unreadable: ReadSummary = { kind: "unreadable", reason: "no_json", isTooLarge: false };
const ok = response(200);
const named = response(422, { details: [{ loc: ["records", 1, "city"], type: "string_type" }] });
const outside = response(422, { details: [{ loc: ["body", "return_fields"], type: "enum" }] });
const second = { calls: 2, unansweredCalls: 1 };

// Sequences of calls: test/extract/sending.test.ts.
describe("a call", () => {
  it.each<[string, Given, string]>([
    [
      "whose answer omits a record that may have been billed before",
      { reply: ok, read: answer(2), history: second },
      "answer, no_answer 2, without_result 2",
    ],
    ["that is unreadable", { reply: ok, read: unreadable }, "retry, again 0123@3500, without_result 0123"],
    [
      "with an answer beyond any size",
      { reply: failure(true, "BODY_TOO_LARGE"), records: 2 },
      "retry, again 0@3500|1@3500, without_result 01",
    ],
    ["that was never sent", { reply: failure(false, "X"), history: second }, "retry, again 0123@1500"],
    [
      "rejected by 429, however often",
      { reply: response(429), history: second, batch: { refusals: 99 } },
      "retry, again 0123@3500",
    ],
    [
      "rejected by 503 thirty times",
      { reply: response(503), batch: { refusals: 29 } },
      "set_aside, no_answer 0123",
    ],
    ["that a proxy times out", { reply: response(408) }, "set_aside, no_answer 0123, without_result 0123"],
    ["of one record that is too large", { reply: response(413), records: 1 }, "reject, http_413 0"],
    ["with a named fault", { reply: named }, "isolate, again 023, string_type 1"],
    ["of one record with an unnamed fault", { reply: response(422), records: 1 }, "isolate, http_422 0"],
    ["with a fault outside its records", { reply: outside }, "stop, stop request_refused"],
    ["beyond the plan", { reply: response(402, { records_remaining: 2 }) }, "use_capacity, again 0123"],
    ["with a rejected key", { reply: response(401) }, "renew_key, again 0123"],
    ["that is forbidden", { reply: response(403) }, "stop, stop forbidden"],
    ["that is redirected", { reply: response(302) }, "stop, stop redirected"],
  ])("%s", async (_name, given, line) => {
    expect(lineOf(await decideOn(given))).toBe(line);
  });

  it("counts what may have been billed in the records to send again, and refusals in the batch", async () => {
    const [lost] = (await decideOn({ reply: response(500) })).again;
    expect([lost?.entries[0]?.unansweredCalls, lost?.refusals]).toEqual([1, 0]);
    const [refused] = (await decideOn({ reply: response(429) })).again;
    expect([refused?.entries[0]?.unansweredCalls, refused?.refusals]).toEqual([0, 1]);
  });
});

it.each<[string, HttpReply, boolean]>([
  ["after more bytes than ever came through is too large for the link", failure(true, "RESET", 1001), true],
  ["earlier than others came through is an accident", failure(true, "RESET", 999), false],
  ["because of a signal says nothing about the link", failure(true, "ABANDONED", 1001), false],
])("an answer that broke off %s", async (_name, reply, isCut) => {
  expect((await decideOn({ reply })).isCut).toBe(isCut);
});

const refusal = (...details: unknown[]) => readErrorBody({ code: "unprocessable_entity", details });

describe("a rejected batch", () => {
  it.each([
    [["body", "records", "3", "emails"], "emails"],
    [["body", "records", 3, "emails", 0], "emails.0"],
    [["records", 3], ""],
    ["body.records.3.emails", "emails"],
    ["body.records[3].emails[0]", "emails.0"],
    ["records[3]", ""],
  ])("names its record as %j", (loc, path) => {
    const faults = faultsByRecord(refusal({ loc, type: "string_too_long" }), 10);
    expect([...faults]).toEqual([[3, [{ path, type: "string_too_long" }]]]);
  });

  it("may name several records, each with several faults, but none that was not sent", () => {
    const error = refusal(
      { loc: ["body", "records", 4, "phones"], type: "list_type" },
      { loc: ["body", "records", 1], type: "model_type" },
      { loc: ["body", "records", 4, "city"], type: "string_type" },
      { loc: ["body", "records", 5], type: "x" },
    );
    const faults = faultsByRecord(error, 5);
    expect(new Set(faults.keys())).toEqual(new Set([1, 4]));
    expect(faults.get(4)?.map(({ path }) => path)).toEqual(["phones", "city"]);
  });

  it.each([
    [["body", "match_condition_fields", 0], "body.match_condition_fields.0 (x)"],
    [["body", "records"], "body.records (x)"],
    [["body"], null],
    [[], null],
    [["body", "records", 5], null],
  ])("for a fault at %j is wrong as a whole: %j", (loc, place) => {
    expect(faultsOutside(refusal({ loc, type: "x" }))).toBe(place);
  });

  it("shows no value in a path or a type", () => {
    const error = refusal({ loc: ["body", "records", 0, "ann lee@example.org"], type: "got Ann Lee" });
    expect(JSON.stringify([...faultsByRecord(error, 1)])).not.toMatch(/ann/iu);
  });

  it("is like another if status, code, path and type are, regardless of the record", () => {
    const signatures = [3, 499].map((n) =>
      refusalSignature(422, refusal({ loc: ["body", "records", n, "emails", n], type: "string_too_long" })),
    );
    const expected = "422 unprocessable_entity body.records.*.emails.* string_too_long";
    expect(signatures).toEqual([expected, expected]);
    expect(refusalSignature(400, readErrorBody({ error: "bad", status_code: 400 }))).toBe("400");
  });
});
