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
import { BODY_TOO_LARGE, type HttpClient, type HttpReply } from "./http-client.ts";
import { type Fault, isolate, MAX_ISOLATION_CALLS, refusalSignature } from "./isolate.ts";
import type { Limiter } from "./limits.ts";
import type { LookupItem, Rejected, SetAside } from "./lookup-item.ts";
import { type Decision, decideRetry, isAmbiguous } from "./retry.ts";
import { capacityUsedUp, jobStopped, keyRejected, redirected, where } from "./stop-messages.ts";
import type { Attempt } from "../schemas/attempt.ts";

/** Summary of a 200 response, as needed to decide what to send next. */
export type ReadSummary =
  | {
      readonly kind: "answer";
      /** Positions of records in the call without a result. */
      readonly missing: readonly number[];
      /** Size after decompression. */
      readonly plainBytes: number;
      readonly apiRequestId: string | null;
    }
  /** Not JSON, without a list of results, or too large. */
  | { readonly kind: "unreadable"; readonly reason: string; readonly isTooLarge: boolean };

/** Outcome of a call. Records not listed here have a result in the answer. */
export interface Settled<T> {
  /** Ledger entry; null for a 200, which is recorded with its rows. */
  readonly attempt: Attempt | null;
  readonly rejected: readonly Rejected<T>[];
  readonly setAside: readonly SetAside<T>[];
  /** Records without a result that may have been processed. */
  readonly unanswered: readonly T[];
  /** Batches to send again. */
  readonly again: readonly Batch<T>[];
  /** Records omitted from an answer, to send again with others. */
  readonly leftOut: readonly Entry<T>[];
}

/** Services for settling calls. */
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

/** True if the body was larger than any answer may be. */
function isOversized(reply: HttpReply): boolean {
  return reply.kind === "failure" && reply.code === BODY_TOO_LARGE;
}

const nothing = { attempt: null, rejected: [], setAside: [], unanswered: [], again: [], leftOut: [] };

/** Signature of batches with most results missing. */
const MISSING_RESULTS = "200, results missing";

/** Decides how to handle the records of finished calls. */
export interface Settlement<T> {
  (call: EndedCall<T>, read: ReadSummary | null): Promise<Settled<T>>;
  /** Sets aside a batch that used up its calls for finding rejected records. */
  giveUp(batch: Batch<T>): SetAside<T>;
}

/** Creates a settlement. */
export function createSettlement<T extends LookupItem>(options: SettlementOptions): Settlement<T> {
  const { endpoint, http, limiter, clock, batchSize, capacity, stop } = options;
  const failing = createFailingBatches(endpoint.name);

  function stopIf(error: LimitReachedError | StopJobError | StopRunError | null): void {
    if (error) stop(error);
  }

  /** Records that a piece is finished; stops if consecutive batches fail for the same reason. */
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

  /** Handles an answer: records without a result are sent once more, then rejected. */
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
        message: `${endpoint.name}: two answers had no result for this record.`,
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

  /** Sends records that may have been billed without a result once more; the second time, sets them aside. */
  function loseSome(
    batch: Batch<T>,
    entries: readonly Entry<T>[],
    cause: string,
  ): Pick<Settled<T>, "again" | "setAside" | "unanswered"> {
    for (const entry of entries) entry.ambiguousCalls += 1;
    const isLast = (entry: Entry<T>) => entry.ambiguousCalls > 1;
    const again = entries.filter((entry) => !isLast(entry));
    const message = `no result after two attempts (${cause}); they may have been billed.`;
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
      message: `${endpoint.name}: the service rejected this record (${cause})${at}.`,
      details: faults.length === 0 ? null : faults,
      apiRequestId: error.apiRequestId,
    });
  }

  /** Rejects the records named by the service, or splits the batch to find them. */
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

  /** Rejects a record whose answer is too large, while others are answered: every run would pay for it in vain. */
  function rejectTooLarge({ batch }: EndedCall<T>, { error }: UnderstoodReply): Partial<Settled<T>> {
    const rejected = rejectedOf(batch, batch.entries, "200, too large", {
      stage: "answer",
      code: "answer_too_large",
      message: `${endpoint.name}: two answers were too large to read, the second one for this record alone.`,
      details: null,
      apiRequestId: error.apiRequestId,
    });
    closePiece(batch);
    return { rejected, unanswered: [] };
  }

  function leaveUnanswered(
    { batch, attempt }: EndedCall<T>,
    { outcome, cause, error }: UnderstoodReply,
  ): Partial<Settled<T>> {
    stopIf(failing.recordUnanswered(cause));
    const charge = isAmbiguous(outcome) ? "they may have been billed" : "nothing was billed";
    const message = `no answer after ${attempt} attempts (${where(cause, error)}); ${charge}.`;
    return { setAside: setAsideOf(batch.entries, "no_answer", message) };
  }

  async function follow(
    decision: Decision,
    call: EndedCall<T>,
    understood: UnderstoodReply,
    isTooLarge: boolean,
  ): Promise<Partial<Settled<T>>> {
    const { batch, reply } = call;
    const { outcome, error, cause } = understood;
    if (decision.action === "retry") {
      const refusals = batch.refusals + (isAmbiguous(outcome) ? 0 : 1);
      const delayed = delayBatch(batch, clock.now() + decision.afterMs, refusals);
      // Each record is sent once more at most, so halving would not find the one that is to blame.
      if (isTooLarge)
        return {
          again: splitBatch(
            delayed,
            batch.entries.map((entry) => [entry]),
          ),
        };
      return { again: [delayed] };
    }
    if (decision.action === "set_aside" && isTooLarge && batch.entries.length === 1 && failing.isAnswering) {
      return rejectTooLarge(call, understood);
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
    // An empty list counts as no answer, unless it confirms that all these records have no result.
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
    const isTooLarge = read?.kind === "unreadable" ? read.isTooLarge : isOversized(call.reply);
    if (isTooLarge) batchSize.recordTooLarge(entries.length);
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
      ...(await follow(decision, call, understood, isTooLarge)),
    };
  }

  return Object.assign(settle, {
    giveUp(batch: Batch<T>): SetAside<T> {
      batch.origin.failedRecords += batch.entries.length;
      closePiece(batch);
      const message =
        `${endpoint.name}: the service rejects records of this batch without naming them, and ${MAX_ISOLATION_CALLS} ` +
        "calls with parts of it did not find them all.";
      return { items: itemsOf(batch.entries), code: "isolation_limit", message };
    },
  });
}
