import { type Batch, itemsOf, type LookupItem, possiblyBilledCalls } from "../../src/extract/batches.ts";
import { decide, giveUpIsolation, isIsolationOver, type Outcome } from "../../src/extract/decide.ts";
import type { HttpReply } from "../../src/extract/http-client.ts";
import {
  applyOutcome,
  batchesOf,
  countCall,
  cutForCall,
  openQueue,
  planBatch,
  refuseBatch,
  returnBatch,
} from "../../src/extract/queue.ts";
import {
  attemptsOf,
  type EndedCall,
  isAnswer,
  unansweredAttempt,
  understandReply,
} from "../../src/extract/send-call.ts";
import type { ReadSummary } from "../../src/extract/take-answer.ts";
import { enrichEndpoint } from "../../src/schemas/enrich.ts";
import type { Attempt } from "../../src/schemas/ledger.ts";

/** Response with a JSON body. */
export function response(status: number, body: object = {}, location: string | null = null): HttpReply {
  return {
    kind: "response",
    status,
    retryAfter: null,
    date: null,
    location,
    contentEncoding: null,
    body: Buffer.from(JSON.stringify(body)),
    release() {},
    keyVersion: 1,
  };
}

/** Failure to receive a response. */
export function failure(sent: boolean, code: string, receivedBytes = 0): HttpReply {
  const status = receivedBytes > 0 ? 200 : null;
  return { kind: "failure", sent, status, receivedBytes, code };
}

/** Records with ids `r0`, `r1`, … */
export function someItems(count: number): LookupItem[] {
  return Array.from({ length: count }, (_, n) => ({ recordId: `r${n}`, json: `{"city":"c${n}"}` }));
}

/** Finished call of a batch whose records count it. */
function endedCall(batch: Batch<LookupItem>, reply: HttpReply): EndedCall<LookupItem> {
  return {
    endpoint: enrichEndpoint.name,
    callId: "9d2c1b8e-5d9c-4d7e-8a53-1c2b3a4d5e6f",
    attempt: attemptsOf(batch),
    startedAtMs: 0,
    milliseconds: 1,
    batch,
    items: itemsOf(batch.entries),
    possiblyBilledBefore: batch.entries.map(possiblyBilledCalls),
    reply,
    bodyBytes: reply.kind === "response" ? reply.body.length : reply.receivedBytes,
    stopError: null,
  };
}

/** Service: its reply to a call, with the numbers of the records that an answer omits, or how it is unreadable. */
export type Service = (
  records: readonly number[],
  index: number,
) => HttpReply | { readonly omits: readonly number[] } | Extract<ReadSummary, { kind: "unreadable" }>;

/** Everything that a lookup ends with; records are numbers. */
interface Driven {
  readonly calls: number[][];
  readonly answered: number[];
  readonly rejected: number[];
  readonly setAside: number[];
  /** Ledger entries of calls without an answer. */
  readonly attempts: Attempt[];
  /** Number of calls without a result that may have been billed, by record. */
  readonly billedInVain: number[];
  /** Code of the error that ended it; null for none. */
  readonly stop: string | null;
}

const numbers = (items: readonly LookupItem[]) => items.map(({ recordId }) => Number(recordId.slice(1)));
const byNumber = (a: number, b: number) => a - b;

/** Sends records to a scripted service through the queue and the decisions, one call at a time, without waiting. */
export async function drive(
  service: Service,
  count: number,
  { batchSize = 4, grant = (records: number) => records } = {},
): Promise<Driven> {
  let nowMs = 0;
  // A clock that leaps to the end of each wait.
  const clock = {
    now: () => nowMs,
    async sleep(ms: number) {
      await Promise.resolve();
      nowMs += ms;
    },
  };
  const endpoint = { ...enrichEndpoint, maxRecords: batchSize };
  async function* pages() {
    // Pages of 0, 3, 6 and 9 records in turn.
    for (let at = 0, size = 0; at < count; at += size, size = (size + 3) % 12)
      yield someItems(count).slice(at, at + size);
  }
  const queue = openQueue({ endpoint, pages: pages(), concurrency: 2, clock });
  const driven = {
    calls: [] as number[][],
    answered: [] as number[],
    rejected: [] as number[],
    setAside: [] as number[],
    attempts: [] as Attempt[],
    billedInVain: Array.from({ length: count }, () => 0),
    stop: null as string | null,
  };
  const apply = (batch: Batch<LookupItem>, outcome: Outcome<LookupItem>) => {
    driven.stop = applyOutcome(queue, batch, outcome)?.code ?? null;
    for (const { items } of outcome.rejected) driven.rejected.push(...numbers(items));
    for (const { items } of outcome.setAside) driven.setAside.push(...numbers(items));
    for (const n of numbers(outcome.sentWithoutResult))
      driven.billedInVain[n] = (driven.billedInVain[n] ?? 0) + 1;
    returnBatch(queue, outcome.again);
  };
  let turns = 0;
  for await (const taken of batchesOf(queue)) {
    if (driven.stop !== null) break;
    if (++turns > 5000) throw new Error("The lookup doesn't end.");
    if (isIsolationOver(taken)) {
      apply(taken, giveUpIsolation(endpoint.name, taken));
      continue;
    }
    const planned = planBatch(queue, taken);
    if (!planned) continue;
    const granted = grant(planned.entries.length);
    if (granted === 0 && queue.isBudgetTight) driven.stop = "budget";
    if (granted === 0) {
      refuseBatch(queue, planned);
      continue;
    }
    const batch = countCall(queue, cutForCall(queue, planned, granted));
    const records = numbers(itemsOf(batch.entries));
    const replied = service(records, driven.calls.push(records) - 1);
    const reply = "omits" in replied || replied.kind === "unreadable" ? response(200) : replied;
    const omitted = "omits" in replied ? new Set(replied.omits) : new Set();
    const missing = records.flatMap((n, position) => (omitted.has(n) ? [position] : []));
    const answer: ReadSummary = { kind: "answer", missing, plainBytes: 1000, apiRequestId: "x" };
    const read = "kind" in replied && replied.kind === "unreadable" ? replied : answer;
    const call = endedCall(batch, reply);
    const understood = await understandReply(reply, clock);
    const { isAnswering, passed, capacity } = queue;
    const present = { nowMs, random: 0.5, isAnswering, passed, capacity, origin: "http://service" };
    const outcome = decide(call, understood, isAnswer(reply) ? read : null, present);
    if (outcome.kind === "answer") driven.answered.push(...records.filter((n) => !omitted.has(n)));
    else driven.attempts.push(unansweredAttempt(call, understood));
    apply(call.batch, outcome);
  }
  for (const list of [driven.answered, driven.rejected, driven.setAside]) list.sort(byNumber);
  return driven;
}
