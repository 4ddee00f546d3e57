import { openConfig, openUnconnected, openWarehouseOf } from "../app.ts";
import { type Context, dataResult, result } from "../command.ts";
import { UsageError } from "../failure.ts";
import type { Config } from "../../config/config.ts";
import { FixConfigurationError } from "../../errors.ts";
import { countText } from "../../figures.ts";
import { takeOverAnswers } from "../../jobs/lookup/job-spool.ts";
import { acceptServiceHost, serviceHostOf } from "../../jobs/service-identity.ts";
import { printGrants } from "../../load/db/check.ts";
import type { Db } from "../../load/db/db.ts";
import { readIdentity } from "../../load/db/identity.ts";
import { readPostgresAddress } from "../../postgres-address.ts";
import { migrate as migrateTables, printDdl } from "../../load/db/migrate.ts";
import { takeOverDestinations } from "../../load/publication/registration.ts";

interface MigrateFlags {
  readonly print?: boolean;
  readonly grants?: boolean;
  readonly acceptService?: string;
  readonly acceptDatabase?: boolean;
}

interface Migrated {
  readonly warehouse: string;
  /** Names of the migrations that this command applied. */
  readonly migrations: readonly string[];
  /** Absent before the first run. */
  readonly service_host?: string;
  /** With `--accept-database`: received responses, and names of destinations. */
  readonly taken_over?: { readonly answers: number; readonly destinations: readonly string[] };
}

export async function migrate(context: Context, flags: MigrateFlags) {
  const config = await openConfig(context);
  if (flags.print === true) return await print(config, flags.grants === true);
  if (flags.grants === true) throw new UsageError("--grants requires --print.");
  const { acceptService: accepted } = flags;
  if (accepted !== undefined) refuseOtherHost(config, accepted);
  const { db } = await openWarehouseOf(context, config);
  const migrations = await migrateTables(db);
  const lines = [
    migrations.length === 0
      ? `✓ The tables of ${db.description} are up to date.`
      : `✓ Migrated ${db.description}: ${migrations.join(", ")}.`,
  ];
  if (accepted !== undefined) lines.push(await acceptService(db, accepted));
  const host = (await readIdentity(db))?.serviceHost;
  const document: Migrated = {
    warehouse: db.description,
    migrations,
    ...(host === undefined ? {} : { service_host: host }),
  };
  if (flags.acceptDatabase !== true) return result(document, lines.join("\n"));
  const answers = await takeOverAnswers(config, db);
  const destinations = await db.transaction((session) => takeOverDestinations(session));
  lines.push(
    answers + destinations.length === 0
      ? "✓ No received response or destination belongs to another copy of this database."
      : `✓ ${countText(answers, "received response")} taken over; the next run loads them.`,
    ...destinations.map((name) => `✓ Destination ${name} taken over; the next publication continues it.`),
  );
  const all: Migrated = { ...document, taken_over: { answers, destinations } };
  return result(all, lines.join("\n"));
}

/**
 * Records a new address of the same service. A sandbox's is never accepted, and nothing that a sandbox filled is: its people
 * would be taken for real ones.
 */
async function acceptService(db: Db, accepted: string): Promise<string> {
  const before = await acceptServiceHost(db, accepted);
  return before === null
    ? "✓ No run has filled the warehouse yet; the first one records the service."
    : `✓ The warehouse now belongs to ${accepted} (previously: ${before}).`;
}

/** Prints statements for an administrator: DDL, or roles and grants. Needs no database. */
async function print(config: Config, hasGrants: boolean) {
  const db = await openUnconnected(config);
  try {
    const { url } = config.warehouse;
    const user = url === "embedded" ? null : readPostgresAddress(await url.read()).user;
    const text = hasGrants ? printGrants(db, user ?? undefined) : printDdl(db);
    return dataResult(hasGrants ? { grants: text } : { ddl: text }, text.trimEnd());
  } finally {
    await db.close();
  }
}

/** Requires the host to match the configuration: a mistyped host would lock out the configured service. */
function refuseOtherHost(config: Config, host: string): void {
  const configured = serviceHostOf(config);
  if (host === configured) return;
  throw new FixConfigurationError("another_service", `service.base_url is ${configured}, not ${host}.`, [
    {
      path: "--accept-service",
      message: `is ${host}, but the configuration has ${configured}`,
      hint: `Set service.base_url to the address of the service, then run person-etl migrate --accept-service ${host}`,
    },
  ]);
}
