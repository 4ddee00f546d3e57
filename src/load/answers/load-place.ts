import type { SchemaNames } from "../db/names.ts";
import type { Session } from "../db/session.ts";

/** Where and for whom rows are written. */
export interface LoadPlace {
  readonly session: Session;
  readonly names: SchemaNames;
  readonly runId: string;
  /** Notes a table whose rows changed. */
  touch(table: string, rows: number): void;
}
