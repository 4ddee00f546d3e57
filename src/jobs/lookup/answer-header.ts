import type { HttpResponse } from "../../extract/http-client.ts";
import type { EndedCall } from "../../extract/send-call.ts";
import type { LookupRecord } from "../../load/due/lookup-record.ts";
import type { LoadSpec } from "../../load/due/lookup-spec.ts";
import type { RunRef } from "../../load/runs/run-ref.ts";

/** Version of the header; increment it when older versions of the program could misread it. */
const FORM = 2;

/** Description of a spooled answer with everything needed to load it, independent of the current configuration. */
export interface AnswerHeader {
  readonly form: typeof FORM;
  /** Short hash of the warehouse's identity. */
  readonly warehouse: string;
  /** Run that sent the call. */
  readonly run: Omit<RunRef, "epoch">;
  readonly spec: LoadSpec;
  /** Name of the table with the input rows of the records. */
  readonly workTable: string;
  /** Request parameters besides the records, such as the requested fields. */
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly call: {
    readonly endpoint: string;
    readonly callId: string;
    /** Number of calls that contained these records, including this one. */
    readonly attempt: number;
    readonly startedAtMs: number;
    readonly milliseconds: number;
    readonly contentEncoding: string | null;
  };
  /** In request order. */
  readonly records: readonly LookupRecord[];
  /** Per record: number of earlier calls that may have billed it without returning its result. */
  readonly doubts: readonly number[];
}

/** Parts of a header shared by all calls of a run. */
export type HeaderOfRun = Pick<AnswerHeader, "warehouse" | "run" | "spec" | "workTable" | "parameters">;

/** Describes the answer of a call. */
export function headerOf(
  { warehouse, run, spec, workTable, parameters }: HeaderOfRun,
  call: EndedCall<LookupRecord>,
  { contentEncoding }: HttpResponse,
): AnswerHeader {
  const { runId, job, jobType, shard } = run;
  const { type, input, refreshAfterMs, refreshUnmatchedAfterMs, parametersHash } = spec;
  const { endpoint, callId, attempt, startedAtMs, milliseconds, items } = call;
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
    doubts: call.possiblyBilledBefore,
  };
}

/** Parses a header; null if another version of the program wrote it. */
export function readHeader(header: unknown): AnswerHeader | null {
  // The checksum covers these bytes, so a header with this version has its fields.
  const read = header as AnswerHeader;
  return read.form === FORM ? read : null;
}
