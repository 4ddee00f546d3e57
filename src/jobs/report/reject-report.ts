import { countRejects, listRejects, type RejectFilter } from "../../load/runs/rejects.ts";
import type { Db } from "../../load/db/db.ts";
import { explainReject } from "../../schemas/reject-codes.ts";

/** Output of `rejects list --json`. */
export interface RejectReport {
  /** Number of selected rejects, including those not listed. */
  readonly rejects: number;
  readonly groups: readonly {
    readonly job: string;
    readonly stage: string;
    readonly code: string;
    readonly rejects: number;
    readonly means: string;
    readonly what_to_do: string;
    readonly first_at: string;
    readonly last_at: string;
  }[];
  /** Newest rejects. */
  readonly records: readonly {
    readonly job: string;
    readonly source: string;
    readonly source_key: string | null;
    readonly stage: string;
    readonly code: string;
    readonly message: string;
    readonly details: unknown;
    readonly created_at: string;
    readonly resolved_at: string | null;
  }[];
}

/** Meaning of a reject code, as a sentence. */
export function meaningOf(code: string): string {
  return explainReject(code).means;
}

/** Reads the rejects that match a filter, with the meaning of their codes. */
export async function readRejects(
  db: Db,
  filter: RejectFilter,
  options: { readonly all: boolean; readonly limit: number },
): Promise<RejectReport> {
  const groups = await countRejects(db, filter, options);
  const rows = await listRejects(db, filter, options);
  return {
    rejects: groups.reduce((sum, group) => sum + group.rejects, 0),
    groups: groups.map(({ job, stage, code, rejects, firstAt, lastAt }) => {
      const { means, todo } = explainReject(code);
      return { job, stage, code, rejects, means, what_to_do: todo, first_at: firstAt, last_at: lastAt };
    }),
    records: rows.map(({ sourceKey, createdAt, resolvedAt, ...row }) => ({
      job: row.job,
      source: row.source,
      source_key: sourceKey,
      stage: row.stage,
      code: row.code,
      message: row.message,
      details: row.details,
      created_at: createdAt,
      resolved_at: resolvedAt,
    })),
  };
}
