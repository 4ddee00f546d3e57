import { z } from "zod";
import type { Derivation } from "./derive.ts";
import { type Fields, shapeOf } from "./field.ts";

/** Nested array of objects, flattened to a child table: one row per element, `position` is its 0-based index. */
export interface ListDeclaration {
  readonly fields: Fields;
  /** Child table; lists that share one differ in `discriminator`. */
  readonly table: string;
  /** Constant of the child table's discriminator column (`email_type`), if it has one. */
  readonly discriminator?: string;
  /** Columns computed from the fields. */
  readonly derived?: readonly Derivation[];
}

/** Object of the interface: scalar fields and nested lists by their name in the interface. */
export interface RecordDeclaration {
  readonly fields: Fields;
  readonly lists: Readonly<Record<string, ListDeclaration>>;
  /** Columns computed from the fields. */
  readonly derived?: readonly Derivation[];
  /** `figures` to keep only numbers and booleans of undeclared fields. */
  readonly extra?: "figures";
}

/** Returns the zod schema of a declared record: checks declared fields, allows unknown ones. Lists may be null. */
export function zodOf(declaration: RecordDeclaration): z.ZodObject {
  const lists = Object.entries(declaration.lists).map(([name, list]) => {
    return [name, z.array(z.looseObject(shapeOf(list.fields))).nullable()] as const;
  });
  return z.looseObject({ ...shapeOf(declaration.fields), ...Object.fromEntries(lists) });
}

/** HTTP attempt as stored in the ledger. */
export interface Attempt {
  /** UUID, unique per attempt. */
  readonly callId: string;
  /** Method and path (`POST /v2/enrich`). */
  readonly endpoint: string;
  readonly apiRequestId: string | null;
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  /** Completion time reported by the service, in UTC with microseconds; null for none. */
  readonly requestCompletedAt: string | null;
  readonly milliseconds: number;
  /** Null without a response. */
  readonly httpStatus: number | null;
  /** Number of calls that contained these records, including this one; 1 for the first. */
  readonly attempt: number;
  /** False if no connection was made, so that the service can't have received it. */
  readonly isSent: boolean;
  /** 0 if no connection was made. */
  readonly recordsSent: number;
  /** Results with `is_match` true; null without an answer. */
  readonly recordsMatched: number | null;
  /** Bytes as received (compressed). */
  readonly responseBytes: number;
  /** True if the service may have billed it, but no answer was received. */
  readonly possiblyBilled: boolean;
  /** Records that may have been billed by both this call and an earlier one without an answer. */
  readonly possiblyBilledTwice: number;
  /** Number of records that the answer omits, which may also have been billed. Absent for none. */
  readonly recordsLeftOut?: number;
}
