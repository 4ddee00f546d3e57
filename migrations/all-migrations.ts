import type { SchemaNames } from "../src/load/db/names.ts";
import type { Derivation } from "../src/schemas/derive.ts";
import { personDerivations } from "../src/schemas/person.ts";
import { createTables } from "./0001-tables.ts";
import { addDerivedColumns } from "./0002-derived-columns.ts";
import { createReaderIndexes } from "./0003-reader-indexes.ts";
import { keepAnswersByContent } from "./0006-answers-by-content.ts";
import { addPlacesAndRequests } from "./0007-places-and-requests.ts";
import { recordDatabase } from "./0008-database-of-destination.ts";
import { renamePublicationTables } from "./0009-tables-of-publications.ts";
import { createPersonHistory } from "./0010-history-of-people.ts";
import { addPricesAndErrors } from "./0011-prices-and-errors.ts";
import { recordPushes } from "./0012-records-of-pushes.ts";
import { indexDeathSignals } from "./0013-profiles-of-inputs.ts";
import { addKeysAndChecks, validateKeysAndChecks } from "./0014-keys-and-checks.ts";
import { createRunShares } from "./0015-shares-of-runs.ts";
import { countUnreleased } from "./0017-oldest-unreleased-change.ts";

/** Migration; runs once, in a transaction. */
export interface Migration {
  readonly name: string;
  readonly statements: (names: SchemaNames) => readonly string[];
  /** Statements without which the tables can be used; each runs in a transaction of its own, after all migrations. */
  readonly afterwards?: (names: SchemaNames) => readonly string[];
  /** Derived columns that stored rows lack, by table; filled after the statements. */
  readonly derivations?: ReadonlyMap<string, readonly Derivation[]>;
}

/**
 * All migrations in order. The first one creates the tables as currently declared, so later ones must use `IF NOT EXISTS` for
 * everything that a new warehouse already has. Views and comments are refreshed after each upgrade.
 */
export const migrations: readonly Migration[] = [
  { name: "0001-tables", statements: createTables },
  { name: "0002-derived-columns", statements: addDerivedColumns, derivations: personDerivations },
  { name: "0003-reader-indexes", statements: createReaderIndexes },
  // Of a table that 0006 replaces.
  { name: "0004-fingerprint", statements: () => [] },
  { name: "0005-index-of-sent-content", statements: () => [] },
  { name: "0006-answers-by-content", statements: keepAnswersByContent },
  { name: "0007-places-and-requests", statements: addPlacesAndRequests },
  { name: "0008-database-of-destination", statements: recordDatabase },
  { name: "0009-tables-of-publications", statements: renamePublicationTables },
  { name: "0010-history-of-people", statements: createPersonHistory },
  { name: "0011-prices-and-errors", statements: addPricesAndErrors },
  { name: "0012-records-of-pushes", statements: recordPushes },
  { name: "0013-profiles-of-inputs", statements: indexDeathSignals },
  { name: "0014-keys-and-checks", statements: addKeysAndChecks, afterwards: validateKeysAndChecks },
  { name: "0015-shares-of-runs", statements: createRunShares },
  // Of a view that 0017 replaces.
  { name: "0016-lag-of-releases", statements: () => [] },
  { name: "0017-oldest-unreleased-change", statements: countUnreleased },
];
