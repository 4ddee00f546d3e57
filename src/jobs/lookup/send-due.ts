import type { Batch } from "../../extract/batch.ts";
import { isAnswer } from "../../extract/call-outcome.ts";
import type { EndedCall, PlannedCall } from "../../extract/call.ts";
import { openLookup } from "../../extract/lookup.ts";
import type { HttpResponse } from "../../extract/http-client.ts";
import type { SetAside } from "../../extract/lookup-item.ts";
import type { ReadSummary, Settled } from "../../extract/settle.ts";
import { recordAttempts } from "../../load/ledger/record-attempts.ts";
import { commitLookup } from "../../load/lookups/commit.ts";
import type { Spool } from "../../spool/spool.ts";
import type { Outage } from "../outage.ts";
import { priceOf } from "../price.ts";
import type { JobServices } from "../services.ts";
import { type HeaderOfRun, headerOf } from "./answer-header.ts";
import type { JobLimits } from "./caps.ts";
import { type LoadableCall, openLoader } from "./loader.ts";
import type { BoundLookup } from "./lookup-types.ts";
import { reserve } from "./reserve.ts";
import type { Settled as Counted, Tally } from "./tally.ts";
import type { LookupReject } from "../../load/lookups/answer.ts";
import type { LookupRecord } from "../../load/lookups/lookup.ts";
import type { LookupSelection } from "../../load/lookups/selection.ts";
import type { LookupSpec } from "../../load/lookups/lookup.ts";
import type { RunRef } from "../../load/runs/run-ref.ts";
import { countAttempts } from "../../load/ledger/counters.ts";

/** Everything needed to send the due records of one job. */
export interface SendTask {
  readonly run: RunRef;
  readonly spec: LookupSpec;
  readonly bound: BoundLookup;
  readonly selection: LookupSelection;
  readonly tally: Tally;
  readonly spool: Spool;
  /** Short hash of the warehouse's identity. */
  readonly warehouseName: string;
  readonly outage: Outage;
  readonly limits: JobLimits;
}

/**
 * Sends what is due and loads the answers. Each call is reserved, sent, spooled, read and committed. Before an early
 * end, calls in flight are finished and their answers committed, unless the warehouse fails.
 */
export async function sendDue(services: JobServices, task: SendTask): Promise<void> {
  const { db, progress, limiter, signal } = services;
  const { run, spec, bound, tally, spool, outage, limits } = task;
  const { endpoint } = bound;
  const price = priceOf(services.config, run.jobType);
  const records = task.selection.records((page) => outage.outlast(page));
  const lookup = openLookup({ ...services, endpoint, parameters: bound.requestParameters, items: records });
  const loader = openLoader(services, { run, spool, outage, areLeftOver: false });
  const headerOfRun: HeaderOfRun = {
    warehouse: task.warehouseName,
    run,
    spec,
    parameters: bound.requestParameters,
  };
  const commits = new Set<Promise<void>>();
  const whenStopped = new Promise<void>((resolve) => {
    lookup.signal.addEventListener("abort", () => {
      resolve();
    });
  });
  let underWay = 0;

  /** Reserves and sends a call. Null if a limit leaves nothing to send. */
  async function sendPlanned(planned: PlannedCall<LookupRecord>): Promise<EndedCall<LookupRecord> | null> {
    let reserved: Awaited<ReturnType<typeof reserve>>;
    try {
      reserved = await reserve(db, endpoint.name, { run, limits, price, kind: spec.kind, outage }, planned);
    } catch (reason) {
      lookup.refuse(planned, reason);
      return null;
    }
    const { granted, erased } = reserved;
    if (erased.length === 0) return await lookup.send(planned, granted);
    const rest = lookup.leaveOut(planned, ({ recordId }) => erased.includes(recordId));
    return rest && (await sendPlanned(rest));
  }

  /** Writes an answer to disk, then reads it. */
  async function spoolAndRead(call: EndedCall<LookupRecord>, reply: HttpResponse): Promise<LoadableCall> {
    const header = headerOf(headerOfRun, call, reply);
    const { callId, startedAtMs, milliseconds } = call;
    const { body } = reply;
    try {
      const file = await spool.write({ callId, receivedAtMs: startedAtMs + milliseconds, header, body });
      return await loader.readReceived(file, header, body);
    } catch (error) {
      // Load the answer from memory, but send no more.
      lookup.stop(error);
      return await loader.readUnspooled(header, body);
    }
  }

  function count(settled: Counted): void {
    tally.settle(settled);
    const { matched, rejected } = tally;
    progress.advance(run.job, settled.answers.length + settled.rejects.length, { matched, rejected });
  }

  async function giveUp(setAside: readonly SetAside<LookupRecord>[]): Promise<void> {
    for (const { items, message } of setAside) {
      await markSent(items);
      tally.giveUp(items, message);
      const { matched, rejected } = tally;
      progress.advance(run.job, items.length, { matched, rejected });
    }
  }

  async function markSent(records: readonly LookupRecord[]): Promise<void> {
    if (records.length === 0) return;
    await outage.outlast(() => task.selection.markSent(records));
  }

  async function commit(loadable: LoadableCall): Promise<void> {
    try {
      count(await loader.commit(loadable));
    } catch (error) {
      lookup.stop(error);
    }
  }

  function startCommit(loadable: LoadableCall): void {
    const task = commit(loadable).finally(() => commits.delete(task));
    commits.add(task);
  }

  /** Records an attempt without an answer and rejected records, before anything is sent again. */
  async function record({ attempt, rejected }: Settled<LookupRecord>): Promise<void> {
    const ledger = attempt ? [attempt] : [];
    if (rejected.length === 0) {
      if (attempt) await outage.outlast(() => recordAttempts(db, run, ledger, countAttempts(ledger)));
      return;
    }
    const rejects = rejected.flatMap(({ items, ...why }): LookupReject[] =>
      items.map((item) => ({ record: item, ...why })),
    );
    await outage.outlast(() => commitLookup(db, { run, spec, ledger, answers: [], rejects, drift: [] }));
    count({ answers: [], rejects });
  }

  /** Completes a call: reads its answer or records its failure, before its records can be sent again. */
  async function settle(call: EndedCall<LookupRecord>): Promise<void> {
    const { reply } = call;
    let summary: ReadSummary | null = null;
    if (isAnswer(reply)) {
      const loadable = await spoolAndRead(call, reply);
      summary = loadable.summary;
      startCommit(loadable);
    }
    const settled = await lookup.settle(call, summary);
    await record(settled);
    await markSent(settled.unanswered);
    await giveUp(settled.setAside);
    lookup.finish(settled);
  }

  /** Does the same, then drops the body. */
  async function settleAndRelease(call: EndedCall<LookupRecord>): Promise<void> {
    try {
      await settle(call);
    } finally {
      if (call.reply.kind === "response") call.reply.release();
    }
  }

  /** Waits until the spool has space for one more answer, and reserves it. */
  async function reserveSpace(): Promise<void> {
    while (!spool.hasSpace(underWay) && !lookup.signal.aborted) {
      await Promise.race([spool.nextRemoval(), whenStopped]);
    }
    underWay += 1;
  }

  /** Sends a batch when the limiter allows it. Null if it may no longer be sent. */
  async function send(batch: Batch<LookupRecord>): Promise<EndedCall<LookupRecord> | null> {
    let isInTurn = false;
    try {
      return await limiter.run(
        endpoint.name,
        async () => {
          isInTurn = true;
          const planned = lookup.plan(batch);
          return planned && (await sendPlanned(planned));
        },
        lookup.signal,
      );
    } catch (error) {
      if (isInTurn || !lookup.signal.aborted) throw error;
      return null;
    }
  }

  /** Makes calls one at a time. */
  async function work(): Promise<void> {
    for (let taken = await lookup.take(); taken !== null; taken = await lookup.take()) {
      if (taken.kind === "given_up") {
        await giveUp([taken.setAside]);
        continue;
      }
      await reserveSpace();
      try {
        const call = await send(taken.batch);
        if (call) await settleAndRelease(call);
      } finally {
        underWay -= 1;
      }
    }
  }

  async function workUntilStopped(): Promise<void> {
    try {
      await work();
    } catch (error) {
      lookup.stop(error);
    }
  }

  const onAbort = () => {
    lookup.stop();
  };
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    await Promise.all(Array.from({ length: limiter.concurrency }, workUntilStopped));
    await Promise.all(commits);
  } finally {
    signal.removeEventListener("abort", onAbort);
    await lookup.close();
  }
  lookup.throwIfStopped();
}
