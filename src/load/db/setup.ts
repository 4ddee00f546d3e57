import { checkWarehouse } from "./check.ts";
import type { Db } from "./db.ts";
import * as migrations from "./migrate.ts";
import type { CheckLine } from "../lookup.ts";

/** True if the tables exist; false before the first migration. */
export async function isMigrated(db: Db): Promise<boolean> {
  try {
    return await migrations.isMigrated(db.pool, db.names);
  } catch (error) {
    throw db.explain(error);
  }
}

/** Creates or upgrades the tables; returns the names of the migrations that ran. */
export async function migrate(db: Db): Promise<readonly string[]> {
  try {
    return await migrations.migrate(db.pool, db.names);
  } catch (error) {
    throw db.explain(error);
  }
}

/** Returns the DDL that `migrate` would run on an empty database. */
export function printDdl(db: Db): string {
  return migrations.printDdl(db.names);
}

/** Checks version, encoding and rights; changes nothing. */
export function checkDatabase(db: Db): Promise<readonly CheckLine[]> {
  return checkWarehouse(db.pool, db.names, db.description);
}
