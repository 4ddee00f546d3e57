import { readIdentity, writeServiceHost } from "../../load/db/identity.ts";
import type { Db } from "../../load/db/db.ts";
import { printGrants } from "../../load/db/check.ts";
import { migrate as migrateTables, printDdl } from "../../load/db/migrate.ts";
import { takeOverDestinations } from "../../load/publication/registration.ts";
import type { Command } from "commander";
import type { Config } from "../../config/config.ts";
import { FixConfigurationError } from "../../errors.ts";
import { countText } from "../../figures.ts";
import { takeOverAnswers } from "../../jobs/lookup/job-spool.ts";
import { serviceHostOf } from "../../jobs/prepare.ts";
import type { AddCommand, Context, Outcome } from "../command.ts";
import { UsageError } from "../failure.ts";
import { openConfig, openConfiguredWarehouse, openUnconnected } from "../app.ts";

interface MigrateFlags {
  readonly print?: boolean;
  readonly grants?: boolean;
  readonly acceptService?: string;
  readonly acceptDatabase?: boolean;
}

/** `migrate`: creates or upgrades the warehouse's tables. */
export const addMigrate: AddCommand = (program, act) => {
  program
    .command("migrate")
    .description("create or upgrade the warehouse tables (`run` also does this)")
    .option("--print", "print the DDL without changing anything")
    .option("--grants", "with --print: print roles and grants instead")
    .option("--accept-service <host>", "accept a new address (host and port) of the same service")
    .option(
      "--accept-database",
      "after a move of the database: take over the received answers and destinations of the former one",
    )
    .action((flags: MigrateFlags, command: Command) => act(command, (context) => migrate(context, flags)));
};

async function migrate(context: Context, flags: MigrateFlags): Promise<Outcome> {
  const config = await openConfig(context);
  if (flags.print === true) return await print(config, flags.grants === true);
  if (flags.grants === true) throw new UsageError("--grants requires --print.");
  if (flags.acceptService !== undefined) refuseOtherHost(config, flags.acceptService);
  const { db } = await openConfiguredWarehouse(context, config);
  const migrations = await migrateTables(db);
  const before = (await readIdentity(db))?.serviceHost;
  const accepted = flags.acceptService ?? null;
  if (accepted !== null) await writeServiceHost(db, accepted, { replace: true });
  const takenOver = flags.acceptDatabase === true ? await takeOver(config, db) : null;
  const lines = [
    migrations.length === 0
      ? `✓ The tables of ${db.description} are up to date.`
      : `✓ Migrated ${db.description}: ${migrations.join(", ")}.`,
    ...(accepted === null
      ? []
      : [`✓ The warehouse now belongs to ${accepted} (previously: ${before ?? "none"}).`]),
    ...(takenOver === null ? [] : takeOverLines(takenOver)),
  ];
  return {
    document: {
      warehouse: db.description,
      migrations,
      service_host: accepted ?? before,
      ...(takenOver === null ? {} : { taken_over: takenOver }),
    },
    text: lines.join("\n"),
    exitCode: 0,
  };
}

/** Answers and destinations that a moved database takes over from the former one. */
interface TakenOver {
  /** Received answers on this disk, which the next run loads. */
  readonly answers: number;
  /** Destinations that the next publication continues. */
  readonly destinations: readonly string[];
}

async function takeOver(config: Config, db: Db): Promise<TakenOver> {
  const answers = await takeOverAnswers(config, db);
  const destinations = await db.transaction((session) => takeOverDestinations(session));
  return { answers, destinations };
}

function takeOverLines({ answers, destinations }: TakenOver): readonly string[] {
  if (answers + destinations.length === 0)
    return ["✓ No received answer or destination belongs to another copy of this database."];
  return [
    `✓ ${countText(answers, "received answer")} taken over; the next run loads them.`,
    ...destinations.map((name) => `✓ Destination ${name} taken over; the next publication continues it.`),
  ];
}

/** Prints statements for an administrator: DDL, or roles and grants. Needs no database. */
async function print(config: Config, hasGrants: boolean): Promise<Outcome> {
  const db = await openUnconnected(config);
  try {
    const text = hasGrants ? printGrants(db) : printDdl(db);
    return { document: hasGrants ? { grants: text } : { ddl: text }, text: text.trimEnd(), exitCode: 0 };
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
      hint: `Correct service.base_url first, then: migrate --accept-service ${configured}`,
    },
  ]);
}
