import type { Clock } from "../../src/clock.ts";
import { isAnswer } from "../../src/extract/call-outcome.ts";
import { type HttpClientOptions, openHttpClient } from "../../src/extract/http-client.ts";
import { createLimiter } from "../../src/extract/limits.ts";
import type { EndedCall, PlannedCall } from "../../src/extract/call.ts";
import { openLookup, type TakenBatch } from "../../src/extract/lookup.ts";
import type { LookupItem, Rejected, SetAside } from "../../src/extract/lookup-item.ts";
import type { ReadSummary } from "../../src/extract/settle.ts";
import { takeAnswer } from "../../src/extract/take-answer.ts";
import { silentLog } from "../../src/log.ts";
import { enrichEndpoint } from "../../src/schemas/enrich.ts";
import type { LookupEndpoint } from "../../src/schemas/endpoint.ts";
import type { JsonObject } from "../../src/schemas/flatten.ts";
import { validateEmailsEndpoint } from "../../src/schemas/validate-emails.ts";
import { fastClock } from "./scripted-service.ts";
import type { Attempt } from "../../src/schemas/attempt.ts";

/** Records of one call with their results. */
export interface AnsweredItems {
  readonly items: readonly LookupItem[];
  readonly results: readonly JsonObject[];
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
  readonly reserve?: (call: PlannedCall<LookupItem>) => Promise<number>;
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
  const lookup = openLookup({
    endpoint,
    parameters: setting.parameters ?? {},
    items: pagesOf(items, setting.pageSize ?? 7),
    http,
    limiter,
    clock,
    log: silentLog,
    random: () => 0.5,
  });
  const markSent = (group: readonly LookupItem[]) => {
    for (const { recordId } of group) sent.add(recordId);
  };

  async function readBody(call: EndedCall<LookupItem>): Promise<ReadSummary | null> {
    if (!isAnswer(call.reply)) return null;
    const taken = await takeAnswer(endpoint, { ...call, ...call.reply }, (result) => result);
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

  async function handle(taken: TakenBatch<LookupItem>): Promise<void> {
    if (taken.kind === "given_up") {
      asides.push(taken.setAside);
      markSent(taken.setAside.items);
      return;
    }
    const call = await limiter
      .run(
        endpoint.name,
        async () => {
          const planned = lookup.plan(taken.batch);
          if (planned === null) return null;
          try {
            const granted = setting.reserve ? await setting.reserve(planned) : planned.items.length;
            return await lookup.send(planned, granted);
          } catch (reason) {
            lookup.refuse(planned, reason);
            return null;
          }
        },
        lookup.signal,
      )
      .catch((error: unknown) => {
        if (lookup.signal.aborted) return null;
        throw error;
      });
    if (call === null) return;
    const settled = await lookup.settle(call, await readBody(call));
    if (settled.attempt) {
      attempts.push(settled.attempt);
      setting.onAttempt?.(settled.attempt);
    }
    rejections.push(...settled.rejected);
    asides.push(...settled.setAside);
    for (const group of [...settled.rejected, ...settled.setAside]) markSent(group.items);
    markSent(settled.unanswered);
    lookup.finish(settled);
  }

  async function work(): Promise<void> {
    try {
      for (let taken = await lookup.take(); taken !== null; taken = await lookup.take()) await handle(taken);
    } catch (error) {
      lookup.stop(error);
    }
  }

  const stop = () => {
    lookup.stop();
  };
  if (setting.signal?.aborted) stop();
  setting.signal?.addEventListener("abort", stop);
  let error: unknown = null;
  try {
    await Promise.all(Array.from({ length: concurrency }, work));
    await lookup.close();
    lookup.throwIfStopped();
  } catch (thrown) {
    error = thrown;
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
