import type { Clock } from "../clock.ts";
import type { LimitReachedError, StopJobError, StopRunError } from "../errors.ts";
import type { Log } from "../log.ts";
import type { LookupEndpoint } from "../schemas/endpoint.ts";
import { attemptOf } from "./attempt.ts";
import { type Batch, delayBatch, type Entry, halves, itemsOf, splitBatch } from "./batch.ts";
import type { BatchSize } from "./batch-size.ts";
import type { EndedCall } from "./call.ts";
import { answered, lostAnswer, reportOf, type UnderstoodReply, understandReply } from "./call-outcome.ts";
import type { Capacity } from "./capacity.ts";
import { createFailingBatches } from "./failing-batches.ts";
import type { HttpClient } from "./http-client.ts";
import { type Fault, isolate, MAX_ISOLATION_CALLS, refusalSignature } from "./isolate.ts";
import type { Limiter } from "./limits.ts";
import type { Attempt, LookupItem, Rejected, SetAside } from "./lookup-item.ts";
import { type Decision, decideRetry, isAmbiguous } from "./retry.ts";
import { capacityUsedUp, jobStopped, keyRejected, redirected, where } from "./stop-messages.ts";

/** Summary of a 200, as far as it decides what to send next. */
export type ReadSummary =
  | {
      readonly kind: "answer";
      /** Positions of the records of the call that have no result. */
      readonly missing: readonly number[];
      /** Size after decompression. */
      readonly plainBytes: number;
      readonly apiRequestId: string | null;
    }
  /** No JSON, or no list of results, or too large. `reason` is a word or two. */
  | { readonly kind: "unreadable"; readonly reason: string; readonly isTooLarge: boolean };

/** Outcome of a call. Records in none of these lists have a result in the answer. */
export interface Settled<T> {
  /** Ledger entry; null for a 200, which is recorded with its rows. */
  readonly attempt: Attempt | null;
  readonly rejected: readonly Rejected<T>[];
  readonly setAside: readonly SetAside<T>[];
  /** Records that may have been processed although they have no result. */
  readonly unanswered: readonly T[];
  /** To be sent again. */
  readonly again: readonly Batch<T>[];
  /** To be sent again with others that an answer left out. */
  readonly leftOut: readonly Entry<T>[];
}

/** Parts of a lookup that settling works with. */
export interface SettlementOptions {
  readonly endpoint: LookupEndpoint;
  readonly http: HttpClient;
  readonly limiter: Limiter;
  readonly clock: Clock;
  readonly log: Log;
  readonly random: () => number;
  readonly batchSize: BatchSize;
  readonly capacity: Capacity;
  readonly stop: (reason: LimitReachedError | StopJobError | StopRunError) => void;
}

const nothing = { attempt: null, rejected: [], setAside: [], unanswered: [], again: [], leftOut: [] };

/** Signature of batches of which most results are missing. */
const MISSING_RESULTS = "200, results missing";

/** Decides what becomes of the records of calls that have ended. */
export interface Settlement<T> {
  (call: EndedCall<T>, read: ReadSummary | null): Promise<Settled<T>>;
  /** Sets a batch aside that used up the calls for finding its bad records. */
  giveUp(batch: Batch<T>): SetAside<T>;
}

/** Starts without any call settled. */
export function createSettlement<T extends LookupItem>(options: SettlementOptions): Settlement<T> {
  const { endpoint, http, limiter, clock, batchSize, capacity, stop } = options;
  const failing = createFailingBatches(endpoint.name);

  function stopIf(error: LimitReachedError | StopJobError | StopRunError | null): void {
    if (error) stop(error);
  }

  /** Notes that all records of a piece have their outcome; stops when batch after batch fails for one reason. */
  function closePiece({ origin }: Batch<T>): void {
    origin.openPieces -= 1;
    if (origin.openPieces > 0) return;
    const { signature, failedRecords, leftOutRecords, size } = origin;
    if (signature !== null && (failedRecords + leftOutRecords) * 2 > size) {
      stopIf(failing.recordRejection(signature));
    } else if (leftOutRecords === 0) failing.recordAcceptance();
  }

  function rejectedOf(
    { origin }: Batch<T>,
    entries: readonly Entry<T>[],
    signature: string,
    why: Omit<Rejected<T>, "items">,
  ): Rejected<T>[] {
    if (entries.length === 0) return [];
    origin.failedRecords += entries.length;
    origin.signature = signature;
    return [{ items: itemsOf(entries), ...why }];
  }

  function setAsideOf(entries: readonly Entry<T>[], code: string, message: string): SetAside<T>[] {
    return entries.length === 0
      ? []
      : [{ items: itemsOf(entries), code, message: `${endpoint.name}: ${message}` }];
  }

  /** Takes an answer with results: records without one are sent once more, then rejected. */
  function accept(
    { batch, wasTight }: EndedCall<T>,
    { missing, plainBytes, apiRequestId }: Extract<ReadSummary, { kind: "answer" }>,
  ): Settled<T> {
    const { entries, origin } = batch;
    const isMissing = new Set(missing);
    const without = entries.filter((_, position) => isMissing.has(position));
    const areMostMissing = without.length * 2 > entries.length;
    batchSize.recordAnswer(plainBytes, entries.length - without.length);
    if (wasTight) capacity.recordAnswer(entries.length);
    if (!areMostMissing) failing.recordAnswer();
    const rejected = rejectedOf(
      batch,
      without.filter((entry) => entry.wasLeftOut),
      "missing_result",
      {
        stage: "answer",
        code: "missing_result",
        message: `${endpoint.name}: the service left this record out of two answers.`,
        details: null,
        apiRequestId,
      },
    );
    const fresh = without.filter((entry) => !entry.wasLeftOut);
    origin.leftOutRecords += fresh.length;
    if (areMostMissing) {
      origin.signature ??= MISSING_RESULTS;
      const lost = loseSome(batch, fresh, MISSING_RESULTS);
      if (lost.again.length === 0) closePiece(batch);
      return { ...nothing, ...lost, rejected };
    }
    for (const entry of fresh) entry.wasLeftOut = true;
    closePiece(batch);
    return { ...nothing, rejected, leftOut: fresh, unanswered: itemsOf(fresh) };
  }

  /** Sends records once more that may have been charged without a result; sets them aside the second time. */
  function loseSome(
    batch: Batch<T>,
    entries: readonly Entry<T>[],
    cause: string,
  ): Pick<Settled<T>, "again" | "setAside" | "unanswered"> {
    for (const entry of entries) entry.ambiguousCalls += 1;
    const isLast = (entry: Entry<T>) => entry.ambiguousCalls > 1;
    const again = entries.filter((entry) => !isLast(entry));
    const message = `no result after two tries (${cause}); it may have been charged.`;
    return {
      again: again.length === 0 ? [] : [{ ...batch, entries: again }],
      setAside: setAsideOf(entries.filter(isLast), "no_answer", message),
      unanswered: itemsOf(entries),
    };
  }

  function rejectRefused(
    { batch, reply }: EndedCall<T>,
    { error, cause }: UnderstoodReply,
    entry: Entry<T>,
    faults: readonly Fault[],
    signature: string,
  ): Rejected<T>[] {
    const named = faults.map(({ path, type }) => `${path || "record"}${type === null ? "" : ` (${type})`}`);
    const at = named.length === 0 ? "" : `: ${named.slice(0, 5).join(", ")}`;
    return rejectedOf(batch, [entry], signature, {
      stage: "send",
      code: faults.find(({ type }) => type !== null)?.type ?? error.code ?? `http_${reply.status}`,
      message: `${endpoint.name}: the service refused this record (${cause})${at}.`,
      details: faults.length === 0 ? null : faults,
      apiRequestId: error.apiRequestId,
    });
  }

  /** Rejects the records that the service named, or splits the batch to find them. */
  function isolateRefused(call: EndedCall<T>, understood: UnderstoodReply): Partial<Settled<T>> {
    const { batch, reply } = call;
    const { error, cause } = understood;
    const found = isolate(error, batch.entries.length);
    const signature = refusalSignature(reply.status ?? 0, error);
    batch.origin.isolationCalls ??= 1;
    batch.origin.signature = signature;
    if (found.kind === "stop") {
      const end = { reply, cause: `${cause} at ${found.where}`, error };
      stop(jobStopped("request_refused", endpoint.name, end));
      return {};
    }
    if (found.kind === "split") return { again: splitBatch(batch, halves(batch)) };
    const faultsByIndex = new Map(found.records.map(({ index, faults }) => [index, faults]));
    const rejected = batch.entries.flatMap((entry, index) => {
      const faults = faultsByIndex.get(index);
      return faults ? rejectRefused(call, understood, entry, faults, signature) : [];
    });
    const rest = batch.entries.filter((_, index) => !faultsByIndex.has(index));
    if (rest.length > 0) return { rejected, again: splitBatch(batch, [rest]) };
    closePiece(batch);
    return { rejected };
  }

  function halve(call: EndedCall<T>, understood: UnderstoodReply): Partial<Settled<T>> {
    const { batch } = call;
    batchSize.recordTooLarge(batch.entries.length);
    if (batch.entries.length > 1) return { again: splitBatch(batch, halves(batch)) };
    const rejected = batch.entries.flatMap((entry) => rejectRefused(call, understood, entry, [], "413"));
    closePiece(batch);
    return { rejected };
  }

  function useCapacity({ batch, wasTight }: EndedCall<T>, { error }: UnderstoodReply): Partial<Settled<T>> {
    if (!capacity.recordRefusal(error.recordsAvailable, wasTight)) stop(capacityUsedUp(endpoint.name, error));
    return { again: [batch] };
  }

  async function renewKey({ batch, reply }: EndedCall<T>, error: UnderstoodReply["error"]) {
    const isNew = reply.kind === "response" && (await http.renewKey(reply.keyVersion));
    if (!isNew) stop(keyRejected(endpoint.name, error));
    return { again: [batch] };
  }

  function leaveUnanswered(
    { batch, attempt }: EndedCall<T>,
    { outcome, cause, error }: UnderstoodReply,
  ): Partial<Settled<T>> {
    stopIf(failing.recordUnanswered(cause));
    const charge = isAmbiguous(outcome) ? "it may have been charged" : "nothing was charged";
    const message = `no answer after ${attempt} tries (${where(cause, error)}); ${charge}.`;
    return { setAside: setAsideOf(batch.entries, "no_answer", message) };
  }

  async function follow(
    decision: Decision,
    call: EndedCall<T>,
    understood: UnderstoodReply,
  ): Promise<Partial<Settled<T>>> {
    const { batch, reply } = call;
    const { outcome, error, cause } = understood;
    if (decision.action === "retry") {
      const refusals = batch.refusals + (isAmbiguous(outcome) ? 0 : 1);
      return { again: [delayBatch(batch, clock.now() + decision.afterMs, refusals)] };
    }
    if (decision.action === "set_aside") return leaveUnanswered(call, understood);
    if (decision.action === "isolate") return isolateRefused(call, understood);
    if (decision.action === "halve") return halve(call, understood);
    if (decision.action === "use_capacity") return useCapacity(call, understood);
    if (decision.action === "renew_key") return await renewKey(call, error);
    if (decision.action === "stop_run") stop(redirected(endpoint.name, http.origin, reply));
    if (decision.action === "stop_job") {
      stop(jobStopped(decision.code, endpoint.name, { reply, cause, error }));
    }
    return {};
  }

  function ledgerEntry(call: EndedCall<T>, { outcome, error }: UnderstoodReply): Attempt {
    const { reply, items, doubts } = call;
    const isSent = outcome.kind !== "not_sent";
    const end = {
      apiRequestId: error.apiRequestId,
      requestCompletedAt: null,
      httpStatus: reply.status,
      isSent,
      recordsSent: isSent ? items.length : 0,
      recordsMatched: null,
      responseBytes: reply.kind === "response" ? reply.body.length : 0,
      possiblyBilled: isAmbiguous(outcome),
    };
    return attemptOf(call, end, doubts);
  }

  async function understand(call: EndedCall<T>, read: ReadSummary | null): Promise<UnderstoodReply> {
    if (read === null) return await understandReply(call.reply, clock);
    if (read.kind === "unreadable") return lostAnswer(read.reason);
    // An empty list is no answer, unless it repeats what an answer with results has said of these records.
    const isEmpty = read.missing.length === call.items.length;
    const isConfirmed = call.batch.entries.every((entry) => entry.wasLeftOut);
    return isEmpty && !isConfirmed ? lostAnswer("without results") : answered;
  }

  async function settle(call: EndedCall<T>, read: ReadSummary | null): Promise<Settled<T>> {
    const understood = await understand(call, read);
    const { outcome, cause } = understood;
    const { entries, refusals } = call.batch;
    const ambiguous = Math.max(...entries.map((entry) => entry.ambiguousCalls));
    const decision = decideRetry(outcome, { refusals, ambiguous, random: options.random() });
    stopIf(limiter.report(endpoint.name, reportOf(outcome, call, decision)));
    if (read?.kind === "answer" && outcome.kind === "answer") return accept(call, read);
    if (read?.kind === "unreadable" && read.isTooLarge) batchSize.recordTooLarge(entries.length);
    if (isAmbiguous(outcome)) for (const entry of entries) entry.ambiguousCalls += 1;
    const { attempt, milliseconds } = call;
    const { action } = decision;
    options.log.debug(
      { endpoint: endpoint.name, cause, attempt, milliseconds, records: entries.length, action },
      "call_failed",
    );
    return {
      ...nothing,
      attempt: read === null ? ledgerEntry(call, understood) : null,
      unanswered: isAmbiguous(outcome) ? call.items : [],
      ...(await follow(decision, call, understood)),
    };
  }

  return Object.assign(settle, {
    giveUp(batch: Batch<T>): SetAside<T> {
      batch.origin.failedRecords += batch.entries.length;
      closePiece(batch);
      const message =
        `${endpoint.name}: the service refuses records of this batch without naming them, and ${MAX_ISOLATION_CALLS} ` +
        "calls with parts of it didn't find them all.";
      return { items: itemsOf(batch.entries), code: "isolation_limit", message };
    },
  });
}
