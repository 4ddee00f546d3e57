import { callsInDoubt } from "../../extract/batch.ts";
import type { AnsweredCall } from "../../extract/keeper.ts";
import type { LoadSpec, LookupRecord, RunRef } from "../../load/lookup.ts";
import type { BoundLookup } from "./lookup-types.ts";

/** Of the header below; raised when an older program could misread it. */
const FORM = 1;

/** Under which run, and how, calls are asked: the same for all calls of a job's run. */
export interface Asked {
  readonly run: RunRef;
  readonly spec: LoadSpec;
  readonly workTable: string;
  readonly bound: Pick<BoundLookup, "requestParameters">;
}

/**
 * What is kept beside an answer's body: all that is needed to load it as it was asked, also by another process after the
 * configuration has changed, and to ask again for a record that it leaves out.
 */
export interface KeptHeader {
  readonly form: typeof FORM;
  readonly run: Omit<RunRef, "epoch">;
  readonly spec: LoadSpec;
  /** Name of the table with the input rows behind the records. */
  readonly workTable: string;
  /** What stood in the request beside the records. */
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly call: Pick<AnsweredCall<unknown>, "callId" | "attempt" | "startedAtMs" | "milliseconds"> & {
    readonly contentEncoding: string | null;
  };
  /** In the order in which they were sent. */
  readonly records: readonly LookupRecord[];
  /** Of each record: earlier calls of which it isn't known whether they were charged; null where there was none. */
  readonly ambiguousCalls: readonly number[] | null;
}

/** Describes a call for its way through the disk. */
export function headerOf(
  { run, spec, workTable, bound }: Asked,
  call: AnsweredCall<LookupRecord>,
): KeptHeader {
  const { entries } = call.batch;
  const { runId, job, jobType, shard } = run;
  const { refreshAfterMs, refreshUnmatchedAfterMs, parametersHash } = spec;
  const { callId, attempt, startedAtMs, milliseconds, reply } = call;
  const doubts = entries.map(callsInDoubt);
  return {
    form: FORM,
    run: { runId, job, jobType, shard },
    spec: {
      job: spec.job,
      type: spec.type,
      input: { name: spec.input.name },
      refreshAfterMs,
      refreshUnmatchedAfterMs,
      parametersHash,
    },
    workTable,
    parameters: bound.requestParameters,
    call: { callId, attempt, startedAtMs, milliseconds, contentEncoding: reply.contentEncoding },
    records: entries.map((entry) => entry.item),
    ambiguousCalls: doubts.some((calls) => calls > 0) ? doubts : null,
  };
}

/** Reads a description back; null when a later version of the program wrote it. */
export function readHeader(header: unknown): KeptHeader | null {
  // The checksum has vouched for the bytes, so what says this form is of this form.
  const kept = header as KeptHeader;
  return kept.form === FORM ? kept : null;
}
