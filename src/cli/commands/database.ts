import type { Command } from "commander";
import { FixConfigurationError } from "../../errors.ts";
import type { AddCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { renderConnection } from "../next-steps.ts";
import { openConfig } from "../open-config.ts";
import { openConfiguredWarehouse } from "../open-warehouse.ts";
import type { Outcome } from "../outcome.ts";

/** `database`: keeps the embedded database running for psql and BI tools. */
export const addDatabase: AddCommand = (program, act) => {
  program
    .command("database")
    .description("keep the embedded database running for psql or a BI tool, until Ctrl-C")
    .action((_flags: object, command: Command) => act(command, database));
};

async function database(context: Context): Promise<Outcome> {
  const config = await openConfig(context);
  if (config.warehouse.url !== "embedded") {
    throw new FixConfigurationError(
      "no_embedded_database",
      "This configuration doesn't use the embedded database.",
      [
        {
          path: "warehouse.url",
          message: `is the address of your own Postgres (${config.warehouse.url.origin})`,
          hint: "connect to that server directly",
        },
      ],
    );
  }
  const { db, howToConnect } = await openConfiguredWarehouse(context, config);
  await context.announce(
    { warehouse: db.description, how_to_connect: howToConnect },
    renderConnection(config, { description: db.description, howToConnect }),
  );
  await context.untilStopped();
  return { document: null, text: "", exitCode: 0 };
}
