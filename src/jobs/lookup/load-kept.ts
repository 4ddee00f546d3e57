import { preparePerson } from "../../load/answers/person-groups.ts";
import { StopJobError } from "../../errors.ts";
import { settleKept } from "../../extract/settle-kept.ts";
import type { CommitHead, LookupPart } from "../../load/lookup.ts";
import type { RunRef } from "../../load/lookup.ts";
import type { Spool, SpooledCall } from "../../spool/spool.ts";
import { countAttempts } from "../call-counters.ts";
import { sumOf } from "../../load/ledger/books.ts";
import { countText } from "./estimate.ts";
import { type KeptHeader, readHeader } from "./kept-header.ts";
import { lookupAsked } from "./lookup-types.ts";
import { openCommitPool } from "./commit-pool.ts";
import type { Outage } from "../outage.ts";
import { receive, receiveAttempt, type Received, resultReader } from "./receive.ts";
import type { JobServices } from "../services.ts";
import { stopReason } from "../stop-reason.ts";
import { countSettled } from "./tally.ts";

/** What loading works with. */
export type LoadServices = Pick<JobServices, "db" | "clock" | "log" | "progress" | "signal">;

/** Whose answers are loaded, and by whom. */
export interface LoadTask {
  /** The run that loads. */
  readonly run: RunRef;
  readonly spool: Spool;
  readonly outage: Outage;
}

interface Loadable {
  readonly call: SpooledCall;
  readonly head: CommitHead;
  readonly part: LookupPart;
}

/**
 * Loads what earlier runs of a job received and could not load, as they would have: under their own ids, with the
 * parameters that they asked with. A damaged answer is told of and left out: its records are due still.
 */
export async function loadKept(services: LoadServices, task: LoadTask): Promise<void> {
  const { db, log, progress, signal } = services;
  const { run, spool, outage } = task;
  const calls = await spool.leftovers();
  if (calls.length === 0) return;
  let records = 0;
  const pool = openCommitPool<Loadable, { readonly call: SpooledCall; readonly records: number }>({
    db,
    outage,
    headOf: ({ head }) => head,
    partOf: ({ part }) => part,
    keep: ({ call, part }) => ({ call, records: part.answers.length }),
    async committed(loaded) {
      for (const one of loaded) {
        await spool.remove(one.call);
        records += one.records;
      }
    },
  });
  progress.note(run.job, `${countText(calls.length, "answer")} received by earlier runs to be loaded first.`);
  try {
    for (const call of calls) {
      if (signal.aborted) throw stopReason(signal);
      const header = await readCall(services, task, call);
      if (header) await pool.push({ call, ...commitOf(run, header) });
    }
  } finally {
    await pool.drain();
    log.info({ job: run.job, calls: calls.length, loaded_records: records }, "kept_answers_loaded");
  }
}

/** A call's header, and what its answer says. */
interface ReadCall extends KeptHeader {
  readonly received: Received;
}

/** Reads a call back; null when there is nothing to be loaded of it. */
async function readCall(
  { db, clock, log }: LoadServices,
  { run, spool }: LoadTask,
  { callId, path }: SpooledCall,
): Promise<ReadCall | null> {
  const content = await spool.read({ path });
  // Another shard of this job has loaded it meanwhile.
  if (content.kind === "gone") return null;
  if (content.kind === "damaged") {
    const { reason, movedTo } = content;
    log.warn({ job: run.job, call_id: callId, reason, moved_to: movedTo }, "kept_answer_damaged");
    return null;
  }
  const header = content.kind === "whole" ? readHeader(content.header) : null;
  if (content.kind === "unknown_form" || header === null) {
    throw new StopJobError(
      "spool_unknown_form",
      `A later version of person-etl has kept answers in ${spool.folder}. Run ${run.job} with that version to load them; ` +
        "this one would send their records again.",
    );
  }
  const { endpoint, read } = lookupAsked(header.spec.type, header.parameters);
  const { records: items, ambiguousCalls } = header;
  const { attempt, outcome } = await settleKept(
    { ...header.call, body: content.body, items, ambiguousCalls },
    {
      endpoint,
      read: resultReader({ read }, (update) => preparePerson(db, update)),
      clock,
    },
  );
  return { ...header, received: outcome ? receive(outcome) : receiveAttempt(attempt) };
}

function commitOf(
  run: RunRef,
  { run: asker, spec, workTable, received }: ReadCall,
): Pick<Loadable, "head" | "part"> {
  const { ledger, answers, rejects, drift } = received;
  // For a run that goes on under its id these rows are unchanged ones: its books have begun anew.
  const counters = keyOf(run) === keyOf(asker) ? {} : sumOf([countAttempts(ledger), countSettled(received)]);
  return {
    head: { run, onBehalfOf: asker, spec, workTable },
    part: { ledger, answers, rejects, drift, counters },
  };
}

function keyOf({ runId, shard }: Pick<RunRef, "runId" | "shard">): string {
  return JSON.stringify([runId, shard]);
}
