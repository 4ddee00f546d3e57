import { silentLog } from "../../src/log.ts";
import type { Clock } from "../../src/clock.ts";
import { type HttpClientOptions, openHttpClient } from "../../src/extract/http-client.ts";
import type { Keeper } from "../../src/extract/keeper.ts";
import { createLimiter } from "../../src/extract/limits.ts";
import {
  type Attempt,
  lookup,
  type LookupItem,
  type LookupOptions,
  type LookupOutcome,
} from "../../src/extract/lookup.ts";
import { enrichEndpoint } from "../../src/schemas/enrich.ts";
import type { LookupEndpoint } from "../../src/schemas/endpoint.ts";
import type { JsonObject } from "../../src/schemas/flatten.ts";
import { validateEmailsEndpoint } from "../../src/schemas/validate-emails.ts";
import { fastClock } from "./scripted-service.ts";

/** All that a lookup left behind. */
export interface LookupRun {
  readonly outcomes: LookupOutcome<LookupItem, JsonObject>[];
  /** Record ids, by what became of them. */
  readonly answered: string[];
  readonly rejected: string[];
  readonly setAside: string[];
  /** Every attempt, also those that came with an answer. */
  readonly attempts: Attempt[];
  /** Record ids that were reported as sent. */
  readonly sent: string[];
  /** What it threw in the end; null when it didn't. */
  readonly error: unknown;
}

/** How a test's lookup differs from the ordinary one. */
export interface LookupSetting {
  readonly batchSize?: number;
  readonly concurrency?: number;
  readonly parameters?: object;
  readonly clock?: Clock;
  readonly signal?: AbortSignal;
  readonly http?: Partial<HttpClientOptions>;
  readonly requestsPerSecond?: number;
  readonly pageSize?: number;
  readonly keeper?: Keeper<LookupItem>;
  readonly reserve?: LookupOptions<LookupItem, JsonObject>["reserve"];
  readonly onAttempt?: (attempt: Attempt) => void;
  readonly onOutcome?: (outcome: LookupOutcome<LookupItem, JsonObject>) => void | Promise<void>;
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

/** Looks all items up and collects what comes out. */
export async function runLookup(
  url: string,
  items: readonly LookupItem[],
  setting: LookupSetting = {},
): Promise<LookupRun> {
  const clock = setting.clock ?? fastClock(100);
  const concurrency = setting.concurrency ?? 2;
  const http = openHttpClient({ baseUrl: url, readKey: async () => "key", concurrency, ...setting.http });
  const base: LookupEndpoint = items[0]?.address === undefined ? enrichEndpoint : validateEmailsEndpoint;
  const attempts: Attempt[] = [];
  const sent: string[] = [];
  const outcomes: LookupOutcome<LookupItem, JsonObject>[] = [];
  let error: unknown = null;
  try {
    const asked = lookup({
      endpoint: { ...base, maxRecords: setting.batchSize ?? 4 },
      parameters: setting.parameters ?? {},
      items: pagesOf(items, setting.pageSize ?? 7),
      http,
      limiter: createLimiter({ concurrency, requestsPerSecond: setting.requestsPerSecond ?? null, clock }),
      clock,
      log: silentLog,
      signal: setting.signal ?? new AbortController().signal,
      reserve: setting.reserve ?? (async ({ items: wanted }) => wanted.length),
      onAttempt: async (attempt) => {
        attempts.push(attempt);
        setting.onAttempt?.(attempt);
        await Promise.resolve();
      },
      onSent: (fresh) => sent.push(...fresh.map((item) => item.recordId)),
      random: () => 0.5,
      keeper: setting.keeper ?? null,
      read: (result) => result,
    });
    for await (const outcome of asked) {
      outcomes.push(outcome);
      if (outcome.kind === "answered") attempts.push(outcome.attempt);
      await setting.onOutcome?.(outcome);
    }
  } catch (thrown) {
    error = thrown;
  } finally {
    await http.close();
  }
  const idsOf = (kind: LookupOutcome<LookupItem, JsonObject>["kind"]) =>
    outcomes
      .flatMap((outcome) => (outcome.kind === kind ? outcome.items.map((item) => item.recordId) : []))
      .toSorted((a, b) => Number(a.slice(1)) - Number(b.slice(1)));
  return {
    outcomes,
    answered: idsOf("answered"),
    rejected: idsOf("rejected"),
    setAside: idsOf("set_aside"),
    attempts,
    sent: sent.toSorted((a, b) => Number(a.slice(1)) - Number(b.slice(1))),
    error,
  };
}

/** `r0` to `r{count - 1}`, without those given. */
export function idsExcept(count: number, ...without: readonly number[]): string[] {
  return Array.from({ length: count }, (_, n) => n)
    .filter((n) => !without.includes(n))
    .map((n) => `r${n}`);
}
