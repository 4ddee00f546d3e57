import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { LookupEndpoint } from "../schemas/endpoint.ts";
import { type Batch, delayBatch, type Entry, halves, itemsOf, splitBatch } from "./batch.ts";
import type { BatchSize } from "./batch-size.ts";
import type { Capacity } from "./capacity.ts";
import type { Dispatch, ExhaustedBatch, FinishedCall } from "./dispatch.ts";
import { createFailingBatches } from "./failing-batches.ts";
import type { HttpClient } from "./http-client.ts";
import { type Fault, isolate, MAX_ISOLATION_CALLS, refusalSignature } from "./isolate.ts";
import type { Limiter } from "./limits.ts";
import type { Attempt, LookupItem, LookupOutcome, Rejected } from "./lookup-outcome.ts";
import type { Answer, ReadResult } from "./read-answer.ts";
import { type Decision, decideRetry, isAmbiguous } from "./retry.ts";
import type { Stop } from "./stop.ts";
import { capacityUsedUp, jobStopped, keyRejected, redirected, where } from "./stop-messages.ts";
import { readingOf, takeAnswer } from "./take-answer.ts";
import { attemptOf, reportOf, understandCall, type UnderstoodCall } from "./understand-call.ts";

/** What settling a call needs of its lookup. */
export interface SettlementOptions<T extends LookupItem, R> {
  readonly endpoint: LookupEndpoint;
  readonly http: HttpClient;
  readonly limiter: Limiter;
  readonly clock: Clock;
  readonly log: Log;
  readonly onAttempt: (attempt: Attempt) => Promise<void>;
  readonly onSent: (items: readonly T[]) => void;
  readonly read: ReadResult<R>;
  readonly random: () => number;
  readonly dispatch: Dispatch<T>;
  readonly batchSize: BatchSize;
  readonly capacity: Capacity;
  readonly stop: Stop<T>;
}

/** Turns finished calls into what became of their records, and puts back what has to be sent again. */
export function createSettlement<T extends LookupItem, R>(options: SettlementOptions<T, R>) {
  const { endpoint, http, limiter, clock, dispatch, batchSize, capacity, stop } = options;
  const failing = createFailingBatches(endpoint.name);
  const reading = readingOf(endpoint, options.read);

  function reportSent(entries: readonly Entry<T>[]): void {
    const fresh = entries.filter((entry) => !entry.isReported);
    for (const entry of fresh) entry.isReported = true;
    if (fresh.length > 0) options.onSent(itemsOf(fresh));
  }

  /** Takes note that all records of a piece have their outcome; stops when batch after batch was refused. */
  function closePiece({ origin }: Batch<T>): void {
    origin.openPieces -= 1;
    if (origin.openPieces > 0) return;
    if (origin.signature === null || origin.failedRecords * 2 <= origin.size) failing.recordAcceptance();
    else {
      const stopped = failing.recordRejection(origin.signature);
      if (stopped) stop.because(stopped);
    }
  }

  function setAside(batch: Batch<T>, code: string, message: string): LookupOutcome<T, R>[] {
    reportSent(batch.entries);
    return [{ kind: "set_aside", items: itemsOf(batch.entries), code, message }];
  }

  function reject(
    { origin }: Batch<T>,
    entries: readonly Entry<T>[],
    signature: string,
    why: Omit<Rejected<T>, "kind" | "items">,
  ): LookupOutcome<T, R> {
    reportSent(entries);
    origin.failedRecords += entries.length;
    origin.signature = signature;
    return { kind: "rejected", items: itemsOf(entries), ...why };
  }

  async function accept(understood: UnderstoodCall<T, R>, answer: Answer<R>): Promise<LookupOutcome<T, R>[]> {
    const { batch } = understood.call;
    const { attempt, outcome, missing } = takeAnswer(endpoint, understood, answer);
    batchSize.recordAnswer(answer.plainBytes, answer.results.length);
    if (understood.call.wasTight) capacity.recordAnswer(batch.entries.length);
    failing.recordAnswer();
    reportSent(batch.entries);

    dispatch.askAgain(missing.filter((entry) => !entry.wasLeftOut));
    const lost = missing.filter((entry) => entry.wasLeftOut);
    for (const entry of missing) entry.wasLeftOut = true;

    if (!outcome) await options.onAttempt(attempt);
    const outcomes: LookupOutcome<T, R>[] = outcome ? [outcome] : [];
    if (lost.length > 0) {
      const message = `${endpoint.name}: the service left this record out of two answers.`;
      const { apiRequestId } = answer;
      const why = { stage: "answer", code: "missing_result", message, details: null, apiRequestId } as const;
      outcomes.push(reject(batch, lost, "missing_result", why));
    }
    closePiece(batch);
    return outcomes;
  }

  function rejectRefused(
    { call, error, cause }: UnderstoodCall<T, R>,
    entry: Entry<T>,
    faults: readonly Fault[],
    signature: string,
  ): LookupOutcome<T, R> {
    const named = faults.map(({ path, type }) => `${path || "record"}${type === null ? "" : ` (${type})`}`);
    const at = named.length === 0 ? "" : `: ${named.slice(0, 5).join(", ")}`;
    return reject(call.batch, [entry], signature, {
      stage: "send",
      code: faults.find(({ type }) => type !== null)?.type ?? error.code ?? `http_${call.reply.status}`,
      message: `${endpoint.name}: the service refused this record (${cause})${at}.`,
      details: faults.length === 0 ? null : faults,
      apiRequestId: error.apiRequestId,
    });
  }

  function isolateRefused(understood: UnderstoodCall<T, R>): LookupOutcome<T, R>[] {
    const { call, error } = understood;
    const { batch } = call;
    const found = isolate(error, batch.entries.length);
    const signature = refusalSignature(call.reply.status ?? 0, error);
    batch.origin.isolationCalls ??= 1;
    batch.origin.signature = signature;
    if (found.kind === "stop") {
      stop.because(
        jobStopped("request_refused", endpoint.name, {
          reply: call.reply,
          cause: `${understood.cause} at ${found.where}`,
          error,
        }),
      );
      return [];
    }
    if (found.kind === "split") {
      dispatch.requeue(splitBatch(batch, halves(batch)));
      return [];
    }
    const faultsByIndex = new Map(found.records.map(({ index, faults }) => [index, faults]));
    const outcomes: LookupOutcome<T, R>[] = [];
    for (const [index, entry] of batch.entries.entries()) {
      const faults = faultsByIndex.get(index);
      if (faults) outcomes.push(rejectRefused(understood, entry, faults, signature));
    }
    const rest = batch.entries.filter((_, index) => !faultsByIndex.has(index));
    if (rest.length > 0) dispatch.requeue(splitBatch(batch, [rest]));
    else closePiece(batch);
    return outcomes;
  }

  function halve(understood: UnderstoodCall<T, R>): LookupOutcome<T, R>[] {
    const { batch } = understood.call;
    batchSize.recordTooLarge(batch.entries.length);
    if (batch.entries.length > 1) {
      dispatch.requeue(splitBatch(batch, halves(batch)));
      return [];
    }
    const outcomes = batch.entries.map((entry) => rejectRefused(understood, entry, [], "413"));
    closePiece(batch);
    return outcomes;
  }

  function useCapacity({ call, error }: UnderstoodCall<T, R>): LookupOutcome<T, R>[] {
    if (!capacity.isTight) dispatch.recall();
    dispatch.requeue([call.batch]);
    if (!capacity.recordRefusal(error.recordsAvailable, call.wasTight)) {
      stop.because(capacityUsedUp(endpoint.name, error));
    }
    return [];
  }

  async function renewKey({ call, error }: UnderstoodCall<T, R>): Promise<LookupOutcome<T, R>[]> {
    try {
      const isNew = call.reply.kind === "response" && (await http.renewKey(call.reply.keyVersion));
      if (isNew) dispatch.requeue([call.batch]);
      else stop.because(keyRejected(endpoint.name, error));
    } catch (unreadable) {
      stop.because(unreadable);
    }
    return [];
  }

  function leaveUnanswered({ call, outcome, cause, error }: UnderstoodCall<T, R>): LookupOutcome<T, R>[] {
    const stopped = failing.recordUnanswered(cause);
    if (stopped) stop.because(stopped);
    const charge = isAmbiguous(outcome) ? "it may have been charged" : "nothing was charged";
    const message = `${endpoint.name}: no answer after ${call.attempt} tries (${where(cause, error)}); ${charge}.`;
    return setAside(call.batch, "no_answer", message);
  }

  function tryAgain({ call, outcome }: UnderstoodCall<T, R>, afterMs: number): LookupOutcome<T, R>[] {
    const refusals = call.batch.refusals + (isAmbiguous(outcome) ? 0 : 1);
    dispatch.requeue([delayBatch(call.batch, clock.now() + afterMs, refusals)]);
    return [];
  }

  function end(understood: UnderstoodCall<T, R>, decision: Extract<Decision, { code: string }>): [] {
    const { call, cause, error } = understood;
    stop.because(
      decision.action === "stop_run"
        ? redirected(endpoint.name, http.origin, call.reply)
        : jobStopped(decision.code, endpoint.name, { reply: call.reply, cause, error }),
    );
    return [];
  }

  /** What each decision leads to. */
  async function follow(
    decision: Decision,
    understood: UnderstoodCall<T, R>,
  ): Promise<LookupOutcome<T, R>[]> {
    if (decision.action === "accept") {
      return understood.answer ? await accept(understood, understood.answer) : [];
    }
    await options.onAttempt(attemptOf(endpoint.name, understood, null));
    if (decision.action === "retry") return tryAgain(understood, decision.afterMs);
    if (decision.action === "set_aside") return leaveUnanswered(understood);
    if (decision.action === "isolate") return isolateRefused(understood);
    if (decision.action === "halve") return halve(understood);
    if (decision.action === "use_capacity") return useCapacity(understood);
    if (decision.action === "renew_key") return await renewKey(understood);
    return end(understood, decision);
  }

  function logFailure({ call, outcome, cause }: UnderstoodCall<T, R>, { action }: Decision): void {
    if (outcome.kind === "answer") return;
    const { attempt, milliseconds, batch } = call;
    options.log.debug(
      { endpoint: endpoint.name, cause, attempt, milliseconds, records: batch.entries.length, action },
      "call_failed",
    );
  }

  async function settleFinished(call: FinishedCall<T>): Promise<LookupOutcome<T, R>[]> {
    const understood = await understandCall(call, await dispatch.plainBody(call), reading, clock);
    const { outcome } = understood;
    const { entries, refusals } = call.batch;
    const ambiguous = Math.max(...entries.map((entry) => entry.ambiguousCalls));
    const decision = decideRetry(outcome, { refusals, ambiguous, random: options.random() });
    const giveUp = limiter.report(endpoint.name, reportOf(outcome, call, decision));
    if (giveUp) stop.because(giveUp);
    if (isAmbiguous(outcome)) {
      for (const entry of entries) entry.ambiguousCalls += 1;
      reportSent(entries);
    }
    logFailure(understood, decision);
    return await follow(decision, understood);
  }

  function settleExhausted({ batch }: ExhaustedBatch<T>): LookupOutcome<T, R>[] {
    batch.origin.failedRecords += batch.entries.length;
    closePiece(batch);
    const message =
      `${endpoint.name}: the service refuses records of this batch without naming them, and trying parts of it ` +
      `${MAX_ISOLATION_CALLS} times didn't find them all.`;
    return setAside(batch, "isolation_limit", message);
  }

  return async function settle(ended: FinishedCall<T> | ExhaustedBatch<T>): Promise<LookupOutcome<T, R>[]> {
    return ended.kind === "finished" ? await settleFinished(ended) : settleExhausted(ended);
  };
}
