import { StopRunError } from "../errors.ts";
import { lookup } from "../extract/lookup.ts";
import type { CounterDelta, LookupSelection, LookupSpec, RunRef } from "../load/warehouse.ts";
import type { AnswerKeeper } from "./answer-keeper.ts";
import { countAttempts, sumOf } from "./call-counters.ts";
import type { BoundLookup } from "./lookup-types.ts";
import type { JobLimits } from "./caps.ts";
import { openLoaderPool } from "./loader-pool.ts";
import type { Outage } from "./outage.ts";
import { mergeDrift, type Received, receive, resultReader } from "./receive.ts";
import { reserveIn } from "./reserve.ts";
import type { JobServices } from "./services.ts";
import { countSettled, recordsOf, type Tally, withRefused } from "./tally.ts";

/** One job's part of a run. */
export interface SendTask {
  readonly run: RunRef;
  readonly spec: LookupSpec;
  readonly bound: BoundLookup;
  readonly selection: LookupSelection;
  readonly tally: Tally;
  readonly keeper: AnswerKeeper;
  readonly outage: Outage;
  readonly limits: JobLimits;
}

/** What is handed to a loader: one call, with what it adds to the counters. */
interface Loadable extends Received {
  readonly counters: CounterDelta;
}

/**
 * Sends what is due and loads what comes back, both at the same time. Whatever ends it early, all that was received
 * before is committed first, unless it is the warehouse that fails.
 */
export async function sendDue(services: JobServices, task: SendTask): Promise<void> {
  const { warehouse, progress } = services;
  const { run, tally, bound } = task;

  async function commit(group: readonly Loadable[]): Promise<void> {
    const { rowsWritten, notLoadable } = await task.outage.outlast(() =>
      warehouse.commitLookup({
        run,
        spec: task.spec,
        ledger: group.flatMap((call) => call.ledger),
        answers: group.flatMap((call) => call.answers),
        rejects: group.flatMap((call) => call.rejects),
        drift: mergeDrift(group.map((call) => call.drift)),
        counters: sumOf(group.map((call) => call.counters)),
      }),
    );
    await task.keeper.release(group.flatMap((call) => call.ledger.map(({ callId }) => callId)));
    for (const call of group) tally.settle(withRefused(call, new Set(notLoadable)));
    tally.add({ rows_written: rowsWritten });
    const done = group.reduce((sum, call) => sum + call.answers.length + call.rejects.length, 0);
    const { records_matched: matched, records_rejected: rejected } = tally.counters();
    progress.advance(run.job, done, { matched, rejected });
  }

  const maxGroup = warehouse.commitGroup.maxCalls;
  const pool = openLoaderPool<Loadable>({
    commit,
    loaders: warehouse.parallelCommits,
    maxGroup,
    // With what the loaders hold this bounds the memory for received answers.
    maxWaiting: maxGroup,
  });

  async function load(received: Received): Promise<void> {
    const attempts = countAttempts(received.ledger);
    tally.add(attempts);
    tally.send(recordsOf(received));
    await pool.push({ ...received, counters: sumOf([attempts, countSettled(received)]) });
  }

  let stopped: { readonly reason: unknown } | null = null;
  try {
    const outcomes = lookup({
      endpoint: bound.endpoint,
      parameters: bound.requestParameters,
      items: task.selection.records((page) => task.outage.outlast(page)),
      http: services.http,
      limiter: services.limiter,
      clock: services.clock,
      log: services.log,
      signal: services.signal,
      random: services.random,
      keeper: task.keeper,
      read: resultReader(bound, warehouse),
      onSent: (records) => {
        tally.send(records);
      },
      reserve: reserveIn(warehouse, bound.endpoint.name, task),
      // At once, and before the records are sent again: what it gives back may be what they need.
      onAttempt: async (attempt) => {
        const counters = countAttempts([attempt]);
        const isKept = task.keeper.has(attempt.callId);
        // What waits on disk is counted when it is noted, by this run or the next.
        if (!isKept) tally.add(counters);
        await task.outage.outlast(() => warehouse.recordAttempts(run, [attempt], counters));
        if (isKept) tally.add(counters);
        await task.keeper.release([attempt.callId]);
      },
    });
    for await (const outcome of outcomes) await load(receive(outcome));
  } catch (reason) {
    stopped = { reason };
  }
  try {
    await pool.drain();
  } catch (failure) {
    for (const call of pool.left()) takeBackKept(call, task);
    // A failed commit outranks what ended the sending, unless that ends the whole run.
    if (!(stopped?.reason instanceof StopRunError)) throw failure;
  }
  if (stopped) throw stopped.reason;
}

/** What waits on disk is counted by the run that loads it, on behalf of this one. */
function takeBackKept(call: Loadable, { keeper, tally }: SendTask): void {
  if (call.ledger.some(({ callId }) => keeper.has(callId))) tally.takeBack(call, countAttempts(call.ledger));
}
