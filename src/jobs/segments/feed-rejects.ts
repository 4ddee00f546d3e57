import { hash } from "node:crypto";
import type { Upsert } from "../../load/write/upsert.ts";
import type { Cell } from "../../schemas/convert.ts";
import { type RejectCode, rejectCodes } from "../../schemas/reject-codes.ts";
import type { RunRef } from "../../load/runs/run-ref.ts";

/** Record that can't be stored. Every reading finds it again. */
export interface FeedReject {
  /** Identifies it within its job. */
  readonly identity: readonly (string | null)[];
  readonly sourceKey: string | null;
  readonly message: string;
  readonly details?: string;
}

/** Origin of rejects; `at` is the time of the reading, ISO 8601. */
interface RejectSource {
  readonly run: RunRef;
  readonly source: string;
  readonly code: keyof typeof rejectCodes;
  readonly apiRequestId: string | null;
  readonly at: string;
}

const columns = [
  "reject_id",
  "run_id",
  "job",
  "source",
  "source_key",
  "stage",
  "code",
  "message",
  "details",
  "api_request_id",
  "created_at",
  "resolved_at",
];

/** Derives a UUID from values. */
function stableUuid(values: readonly (string | null)[]): string {
  const digits = hash("sha256", JSON.stringify(values), "hex");
  return digits.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/u, "$1-$2-8$3-8$4-$5");
}

/** Keeps one open row of `reject` per given record, and resolves other rejects of the same source and code. */
export function upsertRejects(
  { run, source, code, apiRequestId, at }: RejectSource,
  rejects: () => Iterable<FeedReject>,
): Upsert {
  const { stage }: RejectCode = rejectCodes[code];
  return {
    table: "reject",
    columns,
    keep: ["run_id", "api_request_id", "created_at"],
    rows: {
      *[Symbol.iterator](): Generator<readonly Cell[]> {
        for (const { identity, sourceKey, message, details = null } of rejects()) {
          const id = stableUuid(identity);
          const stated = [sourceKey, stage, code, message, details];
          // Reopens the reject even if it was dropped or retried.
          yield [id, run.runId, run.job, source, ...stated, apiRequestId, at, null];
        }
      },
    },
    missing: { scope: { job: run.job, source, code }, flag: null, since: "resolved_at", at },
  };
}
