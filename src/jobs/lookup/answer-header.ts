import type { EndedCall } from "../../extract/call.ts";
import type { HttpResponse } from "../../extract/http-client.ts";
import type { LoadSpec, LookupRecord, RunRef } from "../../load/lookup.ts";

/** Version of the header below; raised when an older program could misread it. */
const FORM = 2;

/** Description of a spooled answer: all that is needed to load it, whatever the configuration says by then. */
export interface AnswerHeader {
  readonly form: typeof FORM;
  /** Short hash of the identity of the warehouse that the answer belongs to. */
  readonly warehouse: string;
  /** The run that sent the call. */
  readonly run: Omit<RunRef, "epoch">;
  readonly spec: LoadSpec;
  /** Name of the table with the input rows behind the records. */
  readonly workTable: string;
  /** Request keys beside the records; they say which field groups were asked for. */
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly call: {
    readonly endpoint: string;
    readonly callId: string;
    /** Number of calls that carried its records, this one included. */
    readonly attempt: number;
    readonly startedAtMs: number;
    readonly milliseconds: number;
    readonly contentEncoding: string | null;
  };
  /** In the order in which they were sent. */
  readonly records: readonly LookupRecord[];
  /** By record: earlier calls that may have been charged for it without giving its result. */
  readonly doubts: readonly number[];
}

/** Parts of a header that all calls of a job's run share. */
export type HeaderOfRun = Pick<AnswerHeader, "warehouse" | "run" | "spec" | "workTable" | "parameters">;

/** Describes the answer of a call. */
export function headerOf(
  { warehouse, run, spec, workTable, parameters }: HeaderOfRun,
  call: EndedCall<LookupRecord>,
  { contentEncoding }: HttpResponse,
): AnswerHeader {
  const { runId, job, jobType, shard } = run;
  const { type, input, refreshAfterMs, refreshUnmatchedAfterMs, parametersHash } = spec;
  const { endpoint, callId, attempt, startedAtMs, milliseconds, items, doubts } = call;
  return {
    form: FORM,
    warehouse,
    run: { runId, job, jobType, shard },
    spec: {
      job: spec.job,
      type,
      input: { name: input.name },
      refreshAfterMs,
      refreshUnmatchedAfterMs,
      parametersHash,
    },
    workTable,
    parameters,
    call: { endpoint, callId, attempt, startedAtMs, milliseconds, contentEncoding },
    records: items,
    doubts,
  };
}

/** Reads a header back; null when another version of the program wrote it. */
export function readHeader(header: unknown): AnswerHeader | null {
  // The checksum covers these bytes, so a header that names this form has it.
  const read = header as AnswerHeader;
  return read.form === FORM ? read : null;
}
