import { randomUUID } from "node:crypto";
import { setImmediate as letOthersRun } from "node:timers/promises";
import { decide } from "../../src/extract/decide.ts";
import type { HttpClient, HttpReply } from "../../src/extract/http-client.ts";
import { createLimiter } from "../../src/extract/limits.ts";
import { createMemory } from "../../src/extract/memory.ts";
import {
  applyOutcome,
  batchesOf,
  countCall,
  openQueue,
  planBatch,
  returnBatch,
} from "../../src/extract/queue.ts";
import { sendCall, understandReply } from "../../src/extract/send-call.ts";
import { takeAnyAnswer, takeLargeAnswer } from "../support/take-any-answer.ts";
import type { Warehouse } from "../support/bound-load.ts";
import { isJsonObject } from "../../src/schemas/flatten.ts";
import { textOf } from "./answer-mutations.ts";
import type { WireBody } from "./byte-mutations.ts";
import type { RealAnswer } from "./real-answers.ts";
import { isSame, type Reading, readWhole } from "./reference-reading.ts";
import type { LookupAnswer, LookupRecord } from "../../src/load/lookups/lookup.ts";
import type { Attempt } from "../../src/schemas/ledger.ts";

/** Values that differ between two calls with the same answer; and the parsed result itself. */
const OF_THE_CALL = new Set(["callId", "apiRequestId", "completedAt", "result"]);

/** Rows of an answer as text, with the values of the call separate. */
function rowsText(answer: LookupAnswer): string {
  return JSON.stringify(answer, (key, value: unknown) => (OF_THE_CALL.has(key) ? undefined : value));
}

/** Content that no warehouse can store, or null. */
function findUnstorable({ cells, extra, servicePid }: LookupAnswer): string | null {
  for (const cell of [...cells, extra, servicePid]) {
    if (cell === null) continue;
    if (typeof cell !== "string") return `a cell is ${typeof cell}`;
    if (cell.includes("\u0000")) return "a cell holds NUL";
    if (!cell.isWellFormed()) return "a cell holds half a surrogate pair";
  }
  return null;
}

/** Row conversion of a warehouse, without a database. */
export type RowMaker = Pick<Warehouse, "preparePerson">;

/** Converts a person like the warehouse, and keeps the source for comparison. */
function transparent(maker: RowMaker): RowMaker {
  return {
    preparePerson: (update) => Object.assign(maker.preparePerson(update), { update }),
  };
}

const keyOf = (record: LookupRecord): string => record.address ?? record.recordId;
const keyFieldOf = ({ bound }: RealAnswer): string =>
  bound.endpoint.pairing === "record_id" ? "record_id" : "email_address";

function soundBody(answer: RealAnswer, keys: readonly string[]): Buffer {
  const texts = new Map(answer.records.map((record, i) => [keyOf(record), answer.parts.results[i] ?? ""]));
  return Buffer.from(textOf({ ...answer.parts, results: keys.map((key) => texts.get(key) ?? "null") }));
}

function keysIn(body: string | null): string[] {
  // The request's body is the program's own.
  const { records } = JSON.parse(body ?? "") as { records: (string | { record_id: string })[] };
  return records.map((record) => (typeof record === "string" ? record : record.record_id));
}

/** A service that gives this answer to the first request and sound answers to all others, without a network. */
function openService(answer: RealAnswer, first: WireBody | null, asked: string[][]): HttpClient {
  return {
    origin: "http://service.invalid",
    memory: createMemory(1024 * 1024),
    async request({ body }): Promise<HttpReply> {
      const keys = keysIn(body);
      asked.push(keys);
      const wire =
        asked.length === 1 && first ? first : { contentEncoding: null, bytes: soundBody(answer, keys) };
      await Promise.resolve();
      return {
        kind: "response",
        status: 200,
        retryAfter: null,
        date: null,
        location: null,
        contentEncoding: wire.contentEncoding,
        body: wire.bytes,
        release() {},
        keyVersion: 1,
      };
    },
    renewKey: async () => false,
    expectSandbox() {},
    close: async () => {},
  };
}

/** A clock that advances only by waits. */
function leapingClock() {
  let nowMs = Date.UTC(2026, 10, 21);
  return {
    now: () => nowMs,
    async sleep(milliseconds: number) {
      nowMs += milliseconds;
      await letOthersRun();
    },
  };
}

async function* pageOf<T>(page: readonly T[]) {
  await Promise.resolve();
  yield page;
}

async function runLookup(answer: RealAnswer, first: WireBody | null, maker: RowMaker) {
  const { bound, records } = answer;
  const { endpoint } = bound;
  /** Ids of the records of each request. */
  const asked: string[][] = [];
  const clock = leapingClock();
  const attempts: Attempt[] = [];
  const answers: LookupAnswer[] = [];
  /** Parsed result of each answered record, by record id; null for one that is too large. */
  const results = new Map<string, unknown>();
  /** Ids of the records with any outcome. */
  const came: string[] = [];
  const { preparePerson } = transparent(maker);
  const http = openService(answer, first, asked);
  const limiter = createLimiter({ concurrency: 1, requestsPerSecond: null, clock });
  const queue = openQueue({ endpoint, pages: pageOf(records), concurrency: 1, clock });
  for await (const taken of batchesOf(queue)) {
    const planned = planBatch(queue, taken);
    if (planned === null) continue;
    const services = { endpoint, parameters: {}, http, limiter, clock };
    const call = await sendCall(services, randomUUID(), countCall(queue, planned));
    // The service answers every request with 200.
    if (call.reply.kind !== "response") throw new Error(call.reply.code);
    const read = await takeAnyAnswer(endpoint, { ...call, ...call.reply }, (result, { drift }) => {
      const part = bound.read(result, drift);
      return { ...part, person: part.person && preparePerson(part.person), result };
    });
    attempts.push(read.attempt);
    for (const [i, record] of call.items.entries()) {
      const rows = read.results[i];
      if (rows === undefined) continue;
      if (rows === null) {
        results.set(record.recordId, null);
        came.push(record.recordId);
        continue;
      }
      const { result, outcome, ...part } = rows;
      const { apiRequestId, completedAt } = read;
      results.set(record.recordId, result);
      came.push(record.recordId);
      if (outcome !== "no_pid") {
        answers.push({ record, outcome, ...part, apiRequestId, completedAt, callId: call.callId });
      }
    }
    const outcome = decide(call, await understandReply(call.reply, clock), read.summary, {
      nowMs: clock.now(),
      random: 0.5,
      isAnswering: queue.isAnswering,
      passed: queue.passed,
      capacity: queue.capacity,
      origin: http.origin,
    });
    const error = applyOutcome(queue, call.batch, outcome);
    for (const { items } of [...outcome.rejected, ...outcome.setAside]) {
      came.push(...items.map(({ recordId }) => recordId));
    }
    if (error) throw error;
    returnBatch(queue, outcome.again);
  }
  return { answers, results, came, attempts, asked };
}

/** Rows of an undamaged answer, by record id. */
export async function soundRows(answer: RealAnswer, maker: RowMaker): Promise<ReadonlyMap<string, string>> {
  const { answers } = await runLookup(answer, null, maker);
  return new Map(answers.map((row) => [row.record.recordId, rowsText(row)]));
}

/** Result of one record, from one whole parse: `undefined` if there isn't exactly one. */
function claimOf(results: readonly unknown[], field: string, key: string): unknown {
  const claims = results.filter((result) => isJsonObject(result) && result[field] === key);
  return claims.length === 1 ? claims[0] : undefined;
}

/** Difference between reading an answer in memory and result by result from its bytes as received, or null. */
export async function findScanDifference(
  answer: RealAnswer,
  { contentEncoding, bytes }: WireBody,
): Promise<string | null> {
  const { bound, records } = answer;
  const call = {
    endpoint: bound.endpoint.name,
    callId: "00000000-0000-4000-8000-000000000000",
    attempt: 1,
    startedAtMs: 0,
    milliseconds: 0,
    contentEncoding,
    body: bytes,
    items: records,
    possiblyBilledBefore: records.map(() => 0),
  };
  const [inMemory, scanned] = await Promise.all(
    [takeAnyAnswer, takeLargeAnswer].map(async (take) => {
      const { results, summary, attempt, completedAt } = await take(bound.endpoint, call, (result) => result);
      // What is wrong with it may be found in another order.
      return summary.kind === "unreadable" ? summary.kind : { results, summary, attempt, completedAt };
    }),
  );
  return isSame(inMemory, scanned, { nesting: true }) ? null : "read result by result it is another answer";
}

/**
 * Looks up a batch with a damaged first answer. Returns the problem, or null: every record must have one outcome;
 * undamaged results must give the same rows; no record with a received result may be sent again. `whole` is
 * the content of the answer: null for unreadable ones.
 */
export async function findDefect(
  answer: RealAnswer,
  first: WireBody,
  sound: ReadonlyMap<string, string>,
  maker: RowMaker,
  whole: Reading | null = readWhole(first),
): Promise<string | null> {
  const { answers, results, came, attempts, asked } = await runLookup(answer, first, maker);
  const ids = answer.records.map(({ recordId }) => recordId);
  if (came.toSorted().join() !== ids.toSorted().join()) return `of ${ids.join()} came ${came.join()}`;
  if (attempts.length !== asked.length)
    return `${asked.length} requests, ${attempts.length} attempts in the ledger`;
  const rows = new Map(answers.map((row) => [row.record.recordId, rowsText(row)]));
  for (const row of answers) {
    const unstorable = findUnstorable(row);
    if (unstorable !== null) return `${row.record.recordId}: ${unstorable}`;
  }
  if (whole === null) {
    if (attempts[0]?.possiblyBilled !== true) return "an unreadable answer doesn't count as possibly billed";
    const other = ids.find((id) => rows.get(id) !== sound.get(id));
    return other === undefined ? null : `${other}: other rows came of the second, sound answer`;
  }
  const askedAgain = new Set(asked.slice(1).flat());
  for (const [i, record] of answer.records.entries()) {
    const { recordId } = record;
    const claim = claimOf(whole.results, keyFieldOf(answer), keyOf(record));
    if (claim === undefined || results.get(recordId) === null) continue;
    if (askedAgain.has(keyOf(record))) return `${recordId} was answered, and sent again`;
    if (!isSame(results.get(recordId), claim, { numbers: !whole.isExact, nesting: true }))
      return `${recordId}: the result isn't what the answer says as a whole`;
    const isUntouched = isSame(JSON.parse(answer.parts.results[i] ?? "null"), claim);
    if (isUntouched && rows.get(recordId) !== sound.get(recordId))
      return `${recordId}: its neighbour's damage changed its rows`;
  }
  return null;
}
