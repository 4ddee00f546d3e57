import type { Db } from "../db/db.ts";

/** The part of the place of record that publication uses. */
export type PublicationDb = Pick<Db, "names" | "transaction" | "snapshot">;
