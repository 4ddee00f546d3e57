import { FixConfigurationError } from "../../errors.ts";
import { checkWarehouse, type CheckLine } from "./check.ts";
import type { Db } from "./db.ts";
import * as grants from "./grants.ts";
import * as migrations from "./migrate.ts";

/** Throws unless the tables exist. Each command migrates first or calls this; all other functions require the tables. */
export async function requireSetUp(db: Db): Promise<void> {
  if (!(await isMigrated(db))) throw notSetUp();
}

/** Error of a command that needs tables which don't exist yet. */
export function notSetUp(): FixConfigurationError {
  return new FixConfigurationError(
    "not_set_up",
    "The warehouse isn't set up yet: run `person-etl migrate`, or start with `person-etl run`.",
  );
}

/** True if the tables exist. Refuses a database that can't hold them. */
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

/** Returns the statements that create the roles of an installation. */
export function printGrants(db: Db): string {
  return grants.printGrants(db.names);
}

/** Checks rights and settings; changes nothing. */
export function checkDatabase(db: Db): Promise<readonly CheckLine[]> {
  return checkWarehouse(db.pool, db.names, db.description);
}
