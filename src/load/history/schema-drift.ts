import { sql } from "kysely";
import type { Db } from "../db/db.ts";
import { tableId } from "../db/names.ts";
import { readBriefly } from "./read-briefly.ts";

/** A field of the service's answers that differs from its declaration. */
interface DriftedField {
  readonly endpoint: string;
  readonly path: string;
  /** `unknown_field` or `unexpected_type`. */
  readonly kind: string;
  readonly observedType: string;
  readonly occurrences: number;
  readonly firstSeenAt: string;
  readonly lastSeenAt: string;
}

/** Reads the fields seen last. */
export function readSchemaDrift(db: Db, limit: number): Promise<readonly DriftedField[]> {
  return readBriefly(db, (session) =>
    session.rows<DriftedField>(sql`
    SELECT endpoint, path, kind, observed_type AS "observedType", occurrences, first_seen_at AS "firstSeenAt",
      last_seen_at AS "lastSeenAt"
    FROM ${tableId(db.names, "schema_drift")} ORDER BY last_seen_at DESC, endpoint, path, kind LIMIT ${limit}`),
  );
}
