import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { isNotCreatedYet, openConfig, openWarehouseOf, removeWorkingFiles } from "../app.ts";
import { confirmation, type Context, type Outcome, result } from "../command.ts";
import { failureOf, UsageError } from "../failure.ts";
import type { Config, DestinationConfig } from "../../config/config.ts";
import { FixConfigurationError, JobLockedError, LimitReachedError } from "../../errors.ts";
import { countText } from "../../figures.ts";
import { lockedText, withoutEnded } from "../../jobs/hold-job.ts";
import { ownSpoolFolders } from "../../jobs/lookup/job-spool.ts";
import { isSandbox } from "../../jobs/service-identity.ts";
import type { Db } from "../../load/db/db.ts";
import { dropEverything, lockJobs, readContent, type SchemaContent } from "../../load/db/drop.ts";
import { readIdentity } from "../../load/db/identity.ts";
import { isMigrated } from "../../load/db/migrate.ts";
import { readPublicationStatus } from "../../load/publication/registration.ts";
import { readUnexpiredHolders } from "../../load/runs/lock.ts";

interface DropFlags {
  readonly trial?: boolean;
  readonly yes?: boolean;
}

interface Dropped {
  /** `failed` without a confirmation. */
  readonly status: "done" | "failed";
  /** Sandbox that filled the warehouse; null if there was no trial. */
  readonly service_host: string | null;
  readonly schemas?: readonly SchemaContent[];
  /** Rows of `person`. */
  readonly people?: number;
  readonly sample_tables?: readonly string[];
  readonly files?: readonly string[];
  /** Published copies, which stay. */
  readonly copies?: Found["copies"];
  /** Schemas that stay, because they aren't empty or belong to another role. */
  readonly schemas_left?: readonly string[];
  readonly error?: { readonly code: string; readonly message: string };
}

/** Removes what a sandbox filled: tables, views, schemas, sample tables and local files. Published copies stay and are listed. */
export async function drop(context: Context, { trial, yes }: DropFlags): Promise<Outcome<Dropped>> {
  if (trial !== true) throw new UsageError("drop removes only a trial: person-etl drop --trial.");
  const config = await openConfig(context);
  const isNew = await isNotCreatedYet(config.warehouse.url, config.dataDir);
  const db = isNew ? null : (await openWarehouseOf(context, config)).db;
  if (db === null || !(await isMigrated(db))) {
    return result(
      { status: "done", service_host: null },
      "✓ There is no trial to remove: the warehouse has no tables.",
    );
  }
  const serviceHost = await requireTrial(db);
  const found = await findTrial(config, db);
  const { schemas, people, sampleTables, files, copies } = found;
  const document = { service_host: serviceHost, schemas, people, sample_tables: sampleTables, files, copies };
  const list = describe(found);
  const { confirm } = yes === true ? { confirm: async () => true } : confirmation(context);
  const what = `This removes the trial in ${db.description} for good`;
  if (!(await confirm?.(`${list}\n\n${what}. Continue?`))) {
    const reason = confirm
      ? "because you declined."
      : "because it needs your confirmation: run again with --yes.";
    const failure = failureOf(new LimitReachedError("confirmation", `Nothing was removed, ${reason}`));
    const shown = confirm ? "" : `${list}\n\n${what}. `;
    const { code, message, exitCode } = failure;
    const error = { code, message };
    return {
      document: { status: "failed", ...document, error },
      text: `${shown}${message}`,
      exitCode,
      failure,
    };
  }
  const left = await db.transaction(async (session) => {
    await lockJobs(session);
    await requireNoRun(db);
    const kept = await dropEverything(session);
    // Before the commit: if this process ends here, the tables still say what the files are, and the command can be repeated.
    await removeFiles(config, found);
    return kept;
  });
  const stays =
    left.length === 0 ? "" : ` ${left.join(", ")} stays, because it isn't empty or belongs to another role.`;
  return result(
    { status: "done", ...document, schemas_left: left },
    `${yes === true ? `${list}\n\n` : ""}✓ The trial in ${db.description} was removed.${stays}`,
  );
}

/** Requires a sandbox as the service of the warehouse; returns its name. */
async function requireTrial(db: Db): Promise<string> {
  const host = (await readIdentity(db))?.serviceHost ?? null;
  if (host !== null && isSandbox(host)) return host;
  const content = host === null ? "no data of any service yet" : `data from ${host}`;
  throw new FixConfigurationError(
    "not_a_trial",
    `The warehouse (${db.description}) contains ${content}, not a trial. Nothing was removed.`,
    [
      {
        path: "warehouse",
        message: "is not one that a sandbox filled",
        hint:
          host === null
            ? "any service can fill it; its first run records which one"
            : "docs/from-sandbox.md shows how to remove a warehouse",
      },
    ],
  );
}

type Found = Awaited<ReturnType<typeof findTrial>>;

async function findTrial(config: Config, db: Db) {
  const content = await db.transaction(readContent);
  const published = await readPublicationStatus(db);
  const copies = config.publish.map((destination) => ({
    name: destination.name,
    type: destination.type,
    place: placeOf(destination),
  }));
  const gone = published.filter(({ destination }) => copies.every(({ name }) => name !== destination));
  return {
    ...content,
    destinations: [...copies.map(({ name }) => name), ...gone.map(({ destination }) => destination)],
    copies: [
      ...copies.filter(({ name }) => published.some(({ destination }) => destination === name)),
      ...gone.map(({ destination }) => ({ name: destination, type: null, place: "no longer configured" })),
    ],
    files: await filesOf(config, db),
  };
}

function placeOf(destination: DestinationConfig): string {
  if (destination.type === "duckdb") return destination.path;
  if (destination.type === "bigquery")
    return `${destination.project}: datasets ${destination.dataset}, ${destination.opsDataset}`;
  return `${destination.catalog}: namespaces ${destination.namespace}, ${destination.opsNamespace}`;
}

/** Received responses of this warehouse, and the sandbox's own files. */
async function filesOf(config: Config, db: Db): Promise<readonly string[]> {
  const inDataDir = await readdir(config.dataDir).catch(() => []);
  const ofSandbox = inDataDir.filter((name) => /^sandbox-\d+-\d+\.json$/u.test(name));
  return [...(await ownSpoolFolders(config, db)), ...ofSandbox.map((name) => join(config.dataDir, name))];
}

async function removeFiles(config: Config, { files, destinations }: Found): Promise<void> {
  for (const path of files) await rm(path, { recursive: true, force: true });
  for (const name of destinations) await removeWorkingFiles(config, name);
}

/** Requires that no process runs a job. */
async function requireNoRun(db: Db): Promise<void> {
  const [holder] = await withoutEnded(await readUnexpiredHolders(db));
  if (holder) throw new JobLockedError(lockedText(holder.job, [holder], "Nothing was removed."));
}

function describe({ schemas, people, sampleTables, files, copies }: Found): string {
  const rows = [
    ...schemas.map(({ name, tables, views }) => ({
      what: name,
      content: `${countText(tables, "table")}, ${countText(views, "view")}`,
    })),
    ...sampleTables.map((name) => ({ what: name, content: "sample rows" })),
    ...files.map((path) => ({ what: path, content: "file" })),
  ];
  const width = Math.max(...rows.map(({ what }) => what.length));
  const foreign = schemas.flatMap((schema) => schema.foreign);
  return [
    `A trial with ${countText(people, "invented person", "invented people")}:`,
    ...rows.map(({ what, content }) => `  ${what.padEnd(width)}  ${content}`),
    ...(copies.length === 0
      ? []
      : [
          "",
          "These copies stay; delete them yourself, or replace them with publish --full:",
          ...copies.map(({ name, place }) => `  ${name}: ${place}`),
        ]),
    ...(foreign.length === 0 ? [] : ["", `These are not the program's and stay: ${foreign.join(", ")}.`]),
  ].join("\n");
}
