import type { RawBuilder } from "kysely";
import type { Cell } from "../../schemas/convert.ts";
import type { SchemaNames } from "../db/names.ts";
import type { Session } from "../db/session.ts";
import type { LookupRecord } from "./lookup.ts";
import type { PreparedPerson } from "./person-groups.ts";

/** One answered record. */
export interface LookupAnswer {
  readonly record: LookupRecord;
  readonly outcome: "matched" | "unmatched";
  /** PID of the match. */
  readonly servicePid: string | null;
  /** Cells of the endpoint's answer columns (`resolveFields`, `enrichFields`, `validateFields`), in declared order. */
  readonly cells: readonly Cell[];
  readonly extra: Cell;
  /** The person, for a match of an enrichment. */
  readonly person: PreparedPerson | null;
  readonly apiRequestId: string | null;
  /** Completion time reported by the service. */
  readonly answeredAt: string;
  readonly callId: string;
}

/** One record that could not be processed. */
export interface LookupReject {
  readonly record: LookupRecord;
  readonly stage: "send" | "answer" | "load";
  readonly code: string;
  readonly message: string;
  /** Contains paths and expected types, never values. */
  readonly details: unknown;
  readonly apiRequestId: string | null;
}

/** Target of a load's rows. */
export interface LoadContext {
  readonly session: Session;
  readonly names: SchemaNames;
  readonly runId: string;
  /** Counts rows of a table that changed. */
  readonly touch: (table: string, rows: number) => void;
}

/** Input rows `job, source, source_key` with the columns of their answer in `lookup_answer`, and `is_missing`. */
export type AnsweredRows = RawBuilder<unknown>;
