import { randomUUID } from "node:crypto";
import type { Clock } from "../../src/clock.ts";
import { LimitReachedError, StopJobError } from "../../src/errors.ts";
import { type Batch, itemsOf, type LookupItem } from "../../src/extract/batches.ts";
import {
  decide,
  giveUpIsolation,
  isIsolationOver,
  type Outcome,
  type Rejected,
  type SetAside,
} from "../../src/extract/decide.ts";
import { type HttpClientOptions, openHttpClient } from "../../src/extract/http-client.ts";
import { createLimiter } from "../../src/extract/limits.ts";
import {
  applyOutcome,
  batchesOf,
  closeQueue,
  countCall,
  cutForCall,
  openQueue,
  planBatch,
  refuseBatch,
  returnBatch,
  stopQueue,
} from "../../src/extract/queue.ts";
import { keyRejected } from "../../src/extract/retry.ts";
import {
  attemptsOf,
  type EndedCall,
  isAnswer,
  sendCall,
  unansweredAttempt,
  understandReply,
} from "../../src/extract/send-call.ts";
import type { ReadSummary } from "../../src/extract/take-answer.ts";
import type { LookupEndpoint } from "../../src/schemas/answer.ts";
import { enrichEndpoint } from "../../src/schemas/enrich.ts";
import type { JsonObject } from "../../src/schemas/flatten.ts";
import type { Attempt } from "../../src/schemas/ledger.ts";
import { validateEmailsEndpoint } from "../../src/schemas/validate-emails.ts";
import { takeAnyAnswer } from "../support/take-any-answer.ts";
import { fastClock } from "./scripted-service.ts";

/** Call to be reserved. */
export interface PlannedCall {
  readonly callId: string;
  readonly items: readonly LookupItem[];
  readonly attempt: number;
}

/** Records of one call with their results. */
export interface AnsweredItems {
  readonly items: readonly LookupItem[];
  readonly results: readonly (JsonObject | null)[];
  readonly apiRequestId: string | null;
  readonly answeredAt: string;
}

/** Everything that a lookup returned. */
export interface LookupRun {
  readonly answers: AnsweredItems[];
  readonly rejections: Rejected<LookupItem>[];
  readonly asides: SetAside<LookupItem>[];
  /** Record ids, by outcome. */
  readonly answered: string[];
  readonly rejected: string[];
  readonly setAside: string[];
  /** Every attempt, also answered ones. */
  readonly attempts: Attempt[];
  /** Ids of the records that the service processed or may have processed. */
  readonly sent: string[];
  /** Error that ended it; null for none. */
  readonly error: unknown;
}

/** Changes of a lookup's default options. */
export interface LookupSetting {
  readonly batchSize?: number;
  readonly concurrency?: number;
  readonly parameters?: object;
  readonly clock?: Clock;
  readonly signal?: AbortSignal;
  readonly http?: Partial<HttpClientOptions>;
  readonly requestsPerSecond?: number;
  readonly pageSize?: number;
  readonly reserve?: (call: PlannedCall) => Promise<number>;
  readonly onAttempt?: (attempt: Attempt) => void;
  readonly onAnswer?: (answer: AnsweredItems) => void | Promise<void>;
}

/** Records with ids `r0`, `r1`, … */
export function someItems(count: number): LookupItem[] {
  return Array.from({ length: count }, (_, n) => ({ recordId: `r${n}`, json: `{"city":"c${n}"}` }));
}

/** Addresses as records of e-mail validation, with ids `r0`, `r1`, … */
export function addressItems(addresses: readonly string[]): LookupItem[] {
  return addresses.map((address, n) => ({ recordId: `r${n}`, json: JSON.stringify(address), address }));
}

async function* pagesOf(items: readonly LookupItem[], pageSize: number) {
  for (let at = 0; at < items.length; at += pageSize) yield items.slice(at, at + pageSize);
}

const idsOf = (groups: readonly { readonly items: readonly LookupItem[] }[]) =>
  groups
    .flatMap(({ items }) => items.map((item) => item.recordId))
    .toSorted((a, b) => Number(a.slice(1)) - Number(b.slice(1)));

function weightOf(reason: unknown): number {
  if (reason instanceof LimitReachedError) return 1;
  return reason instanceof StopJobError ? 2 : 3;
}

function reasonOf(stopped: { readonly reason: unknown } | null): unknown {
  return stopped?.reason ?? null;
}

/** Looks up all items without a spool or a warehouse, and collects the outcome. */
export async function runLookup(
  url: string,
  items: readonly LookupItem[],
  setting: LookupSetting = {},
): Promise<LookupRun> {
  const clock = setting.clock ?? fastClock(100);
  const concurrency = setting.concurrency ?? 2;
  const http = openHttpClient({ baseUrl: url, readKey: async () => "key", concurrency, ...setting.http });
  const base: LookupEndpoint = items[0]?.address === undefined ? enrichEndpoint : validateEmailsEndpoint;
  const endpoint = { ...base, maxRecords: setting.batchSize ?? 4 };
  const limiter = createLimiter({ concurrency, requestsPerSecond: setting.requestsPerSecond ?? null, clock });
  const attempts: Attempt[] = [];
  const answers: AnsweredItems[] = [];
  const rejections: Rejected<LookupItem>[] = [];
  const asides: SetAside<LookupItem>[] = [];
  const sent = new Set<string>();
  const pages = pagesOf(items, setting.pageSize ?? 7);
  const queue = openQueue({ endpoint, pages, concurrency, clock });
  const services = { endpoint, parameters: setting.parameters ?? {}, http, limiter, clock };
  const stopping = new AbortController();
  let stopped: { readonly reason: unknown } | null = null;
  const markSent = (group: readonly LookupItem[]) => {
    for (const { recordId } of group) sent.add(recordId);
  };

  function stop(reason: unknown = null): void {
    if (reason !== null && (stopped === null || weightOf(reason) > weightOf(stopped.reason)))
      stopped = { reason };
    stopQueue(queue);
    stopping.abort();
  }

  async function readBody(call: EndedCall<LookupItem>): Promise<ReadSummary | null> {
    if (!isAnswer(call.reply)) return null;
    const taken = await takeAnyAnswer(endpoint, { ...call, ...call.reply }, (result) => result);
    const { summary, attempt, results, apiRequestId, answeredAt } = taken;
    attempts.push(attempt);
    const found = call.items.filter((_, i) => results[i] !== undefined);
    const answer = {
      items: found,
      results: results.filter((result) => result !== undefined),
      apiRequestId,
      answeredAt,
    };
    markSent(found);
    if (found.length > 0) {
      answers.push(answer);
      await setting.onAnswer?.(answer);
    }
    return summary;
  }

  function record(batch: Batch<LookupItem>, outcome: Outcome<LookupItem>): void {
    const error = applyOutcome(queue, batch, outcome);
    if (error) stop(error);
    rejections.push(...outcome.rejected);
    asides.push(...outcome.setAside);
    for (const { items: group } of [...outcome.rejected, ...outcome.setAside]) markSent(group);
    markSent(outcome.unanswered);
  }

  async function reserveAndSend(batch: Batch<LookupItem>): Promise<EndedCall<LookupItem> | null> {
    const planned = planBatch(queue, batch);
    if (planned === null) return null;
    const callId = randomUUID();
    const isAlone = queue.isBudgetTight;
    let granted = planned.entries.length;
    try {
      const call = { callId, items: itemsOf(planned.entries), attempt: 1 + attemptsOf(planned) };
      if (setting.reserve) granted = await setting.reserve(call);
    } catch (reason) {
      if (isAlone || !(reason instanceof LimitReachedError)) stop(reason);
      refuseBatch(queue, planned);
      return null;
    }
    const call = await sendCall(services, callId, countCall(queue, cutForCall(queue, planned, granted)));
    if (call.stopError !== null) stop(call.stopError);
    return call;
  }

  async function handle(batch: Batch<LookupItem>): Promise<void> {
    if (isIsolationOver(batch)) {
      record(batch, giveUpIsolation(endpoint.name, batch));
      returnBatch(queue, []);
      return;
    }
    const call = await limiter
      .run(endpoint.name, () => reserveAndSend(batch), stopping.signal)
      .catch((error: unknown) => {
        if (stopping.signal.aborted) return null;
        throw error;
      });
    if (call === null) return;
    const read = await readBody(call);
    const reply = await understandReply(call.reply, clock);
    const { isAnswering, capacity, passed } = queue;
    const service = { isAnswering, capacity, passed, origin: http.origin };
    const present = { nowMs: clock.now(), random: 0.5, ...service };
    const outcome = decide(call, reply, read, present);
    const error = limiter.report(endpoint.name, outcome.report);
    if (error) stop(error);
    record(call.batch, outcome);
    if (read === null) {
      const attempt = unansweredAttempt(call, reply);
      attempts.push(attempt);
      setting.onAttempt?.(attempt);
    }
    if (outcome.kind === "renew_key" && call.reply.kind === "response") {
      if (!(await http.renewKey(call.reply.keyVersion))) stop(keyRejected(endpoint.name, reply.error));
    }
    if (call.reply.kind === "response") call.reply.release();
    returnBatch(queue, outcome.again, outcome.leftOut);
  }

  async function work(): Promise<void> {
    try {
      for await (const batch of batchesOf(queue)) await handle(batch);
    } catch (error) {
      stop(error);
    }
  }

  if (setting.signal?.aborted) stop();
  setting.signal?.addEventListener("abort", () => {
    stop();
  });
  let error: unknown = null;
  try {
    await Promise.all(Array.from({ length: concurrency }, work));
    await closeQueue(queue);
    error = reasonOf(stopped);
  } finally {
    await http.close();
  }
  return {
    answers,
    rejections,
    asides,
    answered: idsOf(answers),
    rejected: idsOf(rejections),
    setAside: idsOf(asides),
    attempts,
    sent: [...sent].toSorted((a, b) => Number(a.slice(1)) - Number(b.slice(1))),
    error,
  };
}

/** `r0` to `r{count - 1}`, except the given ones. */
export function idsExcept(count: number, ...without: readonly number[]): string[] {
  return Array.from({ length: count }, (_, n) => n)
    .filter((n) => !without.includes(n))
    .map((n) => `r${n}`);
}
