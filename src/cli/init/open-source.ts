import type { PostgresTarget } from "../../load/db/connect.ts";
import { openEmbedded } from "../../load/embedded/open-embedded.ts";
import { openBrowser } from "../../load/inputs/browse.ts";
import { readPostgresAddress } from "../../postgres-address.ts";
import type { Context } from "../context.ts";
import { failureOf } from "../failure.ts";
import { refuseForeignFolder } from "../open-config.ts";
import { isNotCreatedYet } from "../open-warehouse.ts";
import type { OpenedSource } from "./draft.ts";

/** The database, or the reason why it can't be read; both null for an embedded database that isn't created yet. */
export interface Opening {
  readonly source: OpenedSource | null;
  readonly failure: string | null;
}

/** Opens the embedded database, if it exists, and lists its tables except those in `ownSchemas`. */
export async function openEmbeddedSource(
  context: Context,
  dataDir: string,
  ownSchemas: readonly string[],
): Promise<Opening> {
  const isAbsent = await isNotCreatedYet({ warehouse: { url: "embedded" }, dataDir });
  if (isAbsent) return { source: null, failure: null };
  return await attempt(context, async () => {
    await refuseForeignFolder(dataDir);
    context.notify("Starting the embedded database …");
    const server = await openEmbedded({ dataDir, log: context.log, signal: context.stop.signal });
    context.scope.deferProgram("embedded database", () => server.close());
    return await list(context, { url: server.connectionString }, ownSchemas);
  });
}

/** Opens a Postgres database and lists its tables except those in `ownSchemas`. */
export async function openPostgresSource(
  context: Context,
  target: PostgresTarget,
  ownSchemas: readonly string[],
): Promise<Opening> {
  context.scrubber.hide(readPostgresAddress(target.url).password);
  return await attempt(context, () => list(context, target, ownSchemas));
}

async function list(
  context: Context,
  target: PostgresTarget,
  ownSchemas: readonly string[],
): Promise<OpenedSource> {
  const { host, port, database } = readPostgresAddress(target.url);
  const name = `Postgres at ${host}:${port}${database === null ? "" : `/${database}`}`;
  const browser = openBrowser(target, { name, path: "the address" });
  context.scope.defer("database", () => browser.close());
  return { name, browser, tables: await browser.listTables(ownSchemas) };
}

async function attempt(context: Context, open: () => Promise<OpenedSource>): Promise<Opening> {
  try {
    return { source: await open(), failure: null };
  } catch (error) {
    context.stop.signal.throwIfAborted();
    const { message, problems } = failureOf(error, "listing the tables");
    const hint = problems[0]?.hint;
    // The rest of the message is about runs.
    const [sentence = message] = /^.*?[.](?= |$)/su.exec(message) ?? [];
    return { source: null, failure: hint === undefined ? sentence : `${sentence}\n  → ${hint}` };
  }
}
