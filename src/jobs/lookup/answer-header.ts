import type { HttpResponse } from "../../extract/http-client.ts";
import type { EndedCall } from "../../extract/send-call.ts";
import type { LoadSpec, LookupRecord, LookupType } from "../../load/lookups/lookup.ts";
import type { RunRef } from "../../load/runs/run-ref.ts";
import { kindOf } from "./lookup-spec.ts";

/** Version of the header; increment it when older versions of the program could misread it. */
const FORM = 3;

/** Description of a spooled answer with everything needed to load it, independent of the current configuration. */
export interface AnswerHeader {
  readonly form: typeof FORM;
  /** Warehouse for which it was received, as in the name of the folder. */
  readonly warehouse: string;
  /** Run that sent the call. */
  readonly run: Omit<RunRef, "epoch">;
  readonly spec: LoadSpec;
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
export type HeaderOfRun = Pick<AnswerHeader, "warehouse" | "run" | "spec" | "parameters">;

/** Describes the answer of a call. */
export function headerOf(
  { warehouse, run, spec, parameters }: HeaderOfRun,
  call: EndedCall<LookupRecord>,
  { contentEncoding }: HttpResponse,
): AnswerHeader {
  const { runId, job, jobType, shard } = run;
  const { endpoint, callId, attempt, startedAtMs, milliseconds, items } = call;
  return {
    form: FORM,
    warehouse,
    run: { runId, job, jobType, shard },
    spec: { job: spec.job, type: spec.type, source: spec.source, kind: spec.kind },
    parameters,
    call: { endpoint, callId, attempt, startedAtMs, milliseconds, contentEncoding },
    records: items,
    doubts: call.possiblyBilledBefore,
  };
}

/** A header of version 2, whose records are numbered in a table of its run. */
interface NumberedHeader extends Omit<AnswerHeader, "form" | "spec" | "records"> {
  readonly form: 2;
  readonly spec: {
    readonly job: string;
    readonly type: LookupType;
    readonly input: { readonly name: string };
  };
  readonly records: readonly (Omit<LookupRecord, "content"> & { readonly sentHash: string })[];
}

/** Parses a header; null if another version of the program wrote it. */
export function readHeader(header: unknown): AnswerHeader | null {
  // The checksum covers these bytes, so a header with one of these versions has its fields.
  const read = header as AnswerHeader | NumberedHeader;
  if (read.form === FORM) return read;
  if (read.form !== 2) return null;
  const { spec, records } = read;
  const { job, type, input } = spec;
  return {
    ...read,
    form: FORM,
    spec: { job, type, source: input.name, kind: kindOf(type, read.parameters) },
    records: records.map(({ sentHash, ...record }) => ({
      ...record,
      content: record.address === undefined ? sentHash : Buffer.from(record.address).toString("hex"),
    })),
  };
}
