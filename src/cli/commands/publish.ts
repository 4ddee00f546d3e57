import type { Command } from "commander";
import { type AddCommand, type Context, type Outcome, result } from "../command.ts";
import { openConfig, openConfiguredWarehouse, openPublisher, removeWorkingFiles } from "../app.ts";
import type { Config } from "../../config/config.ts";
import { FixConfigurationError } from "../../errors.ts";
import { count, countText } from "../../figures.ts";
import { dropDestination, publishExitCode, type PublishResult } from "../../jobs/publish/publisher.ts";
import { migrate } from "../../load/db/migrate.ts";

interface PublishFlags {
  readonly verify?: boolean;
  readonly full?: boolean;
  readonly drop?: string;
}

/** `publish`: brings destinations up to date. */
export const addPublish: AddCommand = (program, act) => {
  program
    .command("publish")
    .description("bring the destinations under `publish:` up to date")
    .argument("[names...]", "configured destinations (default: all)")
    .option("--verify", "compare every table and republish those that differ")
    .option("--full", "publish everything again")
    .option("--drop <name>", "stop recording changes for a destination that is no longer configured")
    .action((names: string[], flags: PublishFlags, command: Command) =>
      act(command, (context) => publish(context, names, flags), { destinations: [] }),
    );
};

async function publish(context: Context, names: readonly string[], flags: PublishFlags): Promise<Outcome> {
  const config = await openConfig(context);
  const { db } = await openConfiguredWarehouse(context, config);
  if (flags.drop !== undefined) {
    refuseConfigured(config, flags.drop);
    await migrate(db);
    if (!(await dropDestination(db, flags.drop))) throw unknownDestination(flags.drop, "--drop");
    await removeWorkingFiles(config, flags.drop);
    return result({ dropped: flags.drop }, `✓ ${flags.drop} dropped. The tables in it were not changed.`);
  }
  const known = config.publish.map(({ name }) => name);
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined) throw unknownDestination(unknown, "publish");
  if (known.length === 0) throw unknownDestination(null, "publish");
  await migrate(db);
  const publisher = openPublisher(context, config, db);
  context.notify("Publishing …");
  const results = await publisher.publish(names.length > 0 ? names : known, {
    verify: flags.verify === true,
    full: flags.full === true,
  });
  return {
    document: { destinations: results },
    text: results.map((result) => renderPublication(result)).join("\n"),
    exitCode: context.stop.exitCode() ?? publishExitCode(results),
  };
}

/** Formats one line per destination. */
export function renderPublication(result: PublishResult): string {
  const { destination, status, batches, rows, tables_differing: differing, seconds, error } = result;
  if (status !== "published") return `✗ ${destination}: ${error?.message ?? status}`;
  const what =
    batches === 0
      ? "is up to date"
      : `${countText(rows, "row")} published in ${countText(batches, "batch", "batches")}, ${seconds.toFixed(1)} s`;
  if (differing === null) return `✓ ${destination}: ${what}`;
  const compared =
    differing.length === 0
      ? "every table equals Postgres"
      : `${count(differing.length)} differed and were republished: ${differing.join(", ")}`;
  return `✓ ${destination}: ${what}; ${compared}`;
}

function refuseConfigured({ publish: destinations }: Config, name: string): void {
  if (!destinations.some((destination) => destination.name === name)) return;
  throw new FixConfigurationError("usage", `${name} is still configured.`, [
    { path: `publish.${name}`, message: "is configured", hint: "remove it from the configuration first" },
  ]);
}

function unknownDestination(name: string | null, path: string): FixConfigurationError {
  const summary = name === null ? "No destination is configured." : `There is no destination ${name}.`;
  const message = name === null ? "has no entry" : `unknown destination ${name}`;
  const hint = "for example publish: { local: { type: duckdb, path: people.duckdb } }";
  return new FixConfigurationError("unknown_destination", summary, [{ path, message, hint }]);
}
