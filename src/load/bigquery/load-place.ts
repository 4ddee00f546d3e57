import type { LoadSpec } from "../warehouse.ts";
import type { DatasetNames } from "./names.ts";
import type { CountRows } from "./selection-tables.ts";

/** What the statements of a commit's transaction are made of. */
export interface LoadPlace {
  readonly names: DatasetNames;
  readonly spec: LoadSpec;
  /** The run that asked. */
  readonly runId: string;
  /** The staged lines, quoted. */
  readonly stage: string;
  /** Condition on a staged line `s`: its call is loaded by this transaction, and its values can be stored. */
  readonly isLoaded: string;
  /** Condition on a staged line `s`: its answer has a value that can't be stored; null while none is known. */
  readonly isRefused: string | null;
  readonly count: CountRows;
}
