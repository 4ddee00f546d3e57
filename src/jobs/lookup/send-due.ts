import { preparePerson } from "../../load/answers/person-groups.ts";
import { recordAttempts } from "../../load/ledger/record-attempts.ts";
import { StopRunError } from "../../errors.ts";
import { lookup } from "../../extract/lookup.ts";
import type { CounterDelta, LookupSelection, LookupSpec, RunRef } from "../../load/lookup.ts";
import type { AnswerKeeper } from "./answer-keeper.ts";
import { countAttempts } from "../call-counters.ts";
import { sumOf } from "../../load/ledger/books.ts";
import type { BoundLookup } from "./lookup-types.ts";
import type { JobLimits } from "./caps.ts";
import { openCommitPool } from "./commit-pool.ts";
import type { Outage } from "../outage.ts";
import { type Received, receive, resultReader } from "./receive.ts";
import { reserveIn } from "./reserve.ts";
import type { JobServices } from "../services.ts";
import { countSettled, recordsOf, type Settled, type Tally, withoutContent, withRefused } from "./tally.ts";

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

/** What is needed of a call after its commit. */
interface Sent extends Settled {
  readonly ledger: Received["ledger"];
}

/**
 * Sends what is due and loads what comes back, both at the same time. Whatever ends it early, all that was received
 * before is committed first, unless it is the warehouse that fails.
 */
export async function sendDue(services: JobServices, task: SendTask): Promise<void> {
  const { db, progress } = services;
  const { run, tally, bound, spec } = task;
  const head = { run, spec, workTable: task.selection.workTable };

  const pool = openCommitPool<Loadable, Sent>({
    db,
    outage: task.outage,
    headOf: () => head,
    partOf: ({ ledger, answers, rejects, drift, counters }) => ({
      ledger,
      answers,
      rejects,
      drift,
      counters,
    }),
    keep: ({ ledger, ...settled }) => ({ ledger, ...withoutContent(settled) }),
    async committed(calls, { rowsWritten, moves, notLoadable }) {
      await task.keeper.release(calls.flatMap((call) => call.ledger.map(({ callId }) => callId)));
      const refused = new Set(notLoadable);
      for (const call of calls) tally.settle(withRefused(call, refused));
      tally.move(moves);
      tally.add({ rows_written: rowsWritten });
      const done = calls.reduce((sum, call) => sum + call.answers.length + call.rejects.length, 0);
      const { records_matched: matched, records_rejected: rejected } = tally.counters();
      progress.advance(run.job, done, { matched, rejected });
    },
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
      read: resultReader(bound, (update) => preparePerson(db, update)),
      onSent: (records) => {
        tally.send(records);
      },
      reserve: reserveIn(db, bound.endpoint.name, task),
      // At once, and before the records are sent again: what it gives back may be what they need.
      onAttempt: async (attempt) => {
        const counters = countAttempts([attempt]);
        const isKept = task.keeper.has(attempt.callId);
        // What waits on disk is counted when it is noted, by this run or the next.
        if (!isKept) tally.add(counters);
        await task.outage.outlast(() => recordAttempts(db, run, [attempt], counters));
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
function takeBackKept(call: Sent, { keeper, tally }: SendTask): void {
  if (call.ledger.some(({ callId }) => keeper.has(callId))) tally.takeBack(call, countAttempts(call.ledger));
}
