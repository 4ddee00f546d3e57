import type { SchemaNames } from "../db/names.ts";
import type { Session } from "../db/session.ts";

/** The part of the place of record that publication uses. */
export interface PublicationDb {
  readonly names: SchemaNames;
  /** Runs work in one transaction, repeated after conflicts and lost connections. */
  transaction<Result>(work: (session: Session) => Promise<Result>): Promise<Result>;
  /** The same in REPEATABLE READ, so that all statements see one snapshot. */
  snapshot<Result>(work: (session: Session) => Promise<Result>): Promise<Result>;
  /** Turns an error of the driver into one that says what to do. */
  explain(error: unknown): unknown;
}
