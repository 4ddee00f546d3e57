import { openConfig, openPublisher, openWarehouseOf, removeWorkingFiles } from "../app.ts";
import { type Context, result } from "../command.ts";
import { FixConfigurationError } from "../../errors.ts";
import { countText } from "../../figures.ts";
import { dropDestination, publishExitCode, type PublishResult } from "../../jobs/publish/publisher.ts";
import { migrate } from "../../load/db/migrate.ts";

interface PublishFlags {
  readonly verify?: boolean;
  readonly full?: boolean;
  readonly drop?: string;
}

export async function publish(context: Context, flags: PublishFlags, names: readonly string[]) {
  const config = await openConfig(context);
  const { db } = await openWarehouseOf(context, config);
  const known = config.publish.map(({ name }) => name);
  const { drop } = flags;
  if (drop !== undefined) {
    if (known.includes(drop)) {
      throw new FixConfigurationError("usage", `${drop} is still configured.`, [
        { path: `publish.${drop}`, message: "is configured", hint: "remove it from the configuration first" },
      ]);
    }
    await migrate(db);
    if (!(await dropDestination(db, drop))) throw unknownDestination(drop, "--drop");
    const isRemoved = await removeWorkingFiles(config, drop);
    const left = isRemoved ? "" : " Its working files stay, because another process is using them.";
    return result({ dropped: drop }, `✓ ${drop} dropped. The tables in it were not changed.${left}`);
  }
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined || known.length === 0) throw unknownDestination(unknown, "publish");
  await migrate(db);
  const publisher = await openPublisher(context, config, db);
  context.notify("Publishing …");
  const { verify = false, full = false } = flags;
  const results = await publisher.publish(names.length > 0 ? names : known, { verify, full });
  return {
    document: { destinations: results },
    text: results.map(renderPublication).join("\n"),
    exitCode: context.stop.exitCode() ?? publishExitCode(results),
  };
}

export function renderPublication(published: PublishResult): string {
  const { destination, status, batches, rows, tables_differing: differing, seconds, error } = published;
  if (status !== "published") return `✗ ${destination}: ${error?.message ?? status}`;
  const what =
    batches === 0
      ? "is up to date"
      : `${countText(rows, "row")} published in ${countText(batches, "batch", "batches")}, ${seconds.toFixed(1)} s`;
  if (differing === null) return `✓ ${destination}: ${what}`;
  const compared =
    differing.length === 0
      ? "all tables are the same as in Postgres"
      : `${differing.length} differed and were republished: ${differing.join(", ")}`;
  return `✓ ${destination}: ${what}; ${compared}`;
}

function unknownDestination(name: string | undefined, path: string): FixConfigurationError {
  const summary = name === undefined ? "No destination is configured." : `There is no destination ${name}.`;
  const message = name === undefined ? "has no entry" : `unknown destination ${name}`;
  const hint = "for example publish: { local: { type: duckdb, path: people.duckdb } }";
  return new FixConfigurationError("unknown_destination", summary, [{ path, message, hint }]);
}
