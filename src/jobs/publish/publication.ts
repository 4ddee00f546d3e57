import { LimitReachedError } from "../../errors.ts";
import type { PublicationDb } from "../../load/publication/registration.ts";
import type { Log } from "../../log.ts";
import type { Catalog, Destination } from "../../publish/destination.ts";

export interface Publication {
  readonly db: PublicationDb;
  readonly destination: Destination;
  readonly catalog: Catalog;
  /** Folder for temporary files; one per destination. */
  readonly folder: string;
  readonly log: Log;
  readonly signal?: AbortSignal;
}

/** Next step if another database with the same data no longer exists. */
export const AFTER_A_MOVE =
  "If that database was moved here (dump and restore, another server), run `person-etl migrate --accept-database`";

export function copiedText(name: string): string {
  return (
    `Destination ${name} belongs to another copy of this database. Nothing was changed there. ${AFTER_A_MOVE}. ` +
    `Otherwise configure another destination; \`person-etl publish ${name} --full\` would replace what that database published.`
  );
}

export function refused(name: string): LimitReachedError {
  return new LimitReachedError(
    "publication_refused",
    `Destination ${name} doesn't contain the batch that was last published from this warehouse: it still has ` +
      `the copy of a removed trial, one of them was restored from a backup, or another configuration publishes to it. Nothing was changed ` +
      `there. Run \`person-etl publish ${name} --full\` to publish everything again.`,
  );
}
