import type { RawBuilder } from "kysely";
import type { SchemaNames } from "../db/names.ts";
import type { Session } from "../db/session.ts";

/** Target of a load's rows. */
export interface LoadContext {
  readonly session: Session;
  readonly names: SchemaNames;
  readonly runId: string;
  /** Counts rows of a table that changed. */
  readonly touch: (table: string, rows: number) => void;
}

/** Target of the rows of lookup answers. */
export interface LookupContext extends LoadContext {
  /** Table with the input rows of each record. */
  readonly rows: RawBuilder<unknown>;
}
