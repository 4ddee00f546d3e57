import { LimitReachedError } from "../../errors.ts";
import type { PublicationDb } from "../../load/publication/publication-db.ts";
import type { Log } from "../../log.ts";
import type { Catalog, Destination } from "../../publish/destination.ts";

/** A destination, and what is published to it. */
export interface Publication {
  readonly db: PublicationDb;
  readonly destination: Destination;
  readonly catalog: Catalog;
  /** Folder for files on their way; its own per destination. */
  readonly folder: string;
  readonly log: Log;
  readonly signal?: AbortSignal;
}

/** The destination holds another history than Postgres. */
export function refused(name: string): LimitReachedError {
  return new LimitReachedError(
    "publication_refused",
    `Destination ${name} doesn't stand at the batch that was last published here: it or the warehouse was restored from a backup, or ` +
      `another configuration publishes to it. Nothing was changed there. \`publish ${name} --full\` publishes everything again.`,
  );
}
