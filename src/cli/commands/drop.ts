import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { isNotCreatedYet, openConfig, openWarehouseOf, removeWorkingFiles, workingFilesOf } from "../app.ts";
import { confirmation, type Context, type Outcome, result } from "../command.ts";
import { failureOf, UsageError } from "../failure.ts";
import type { Config, DestinationConfig } from "../../config/config.ts";
import { FixConfigurationError, JobLockedError, LimitReachedError, StopRunError } from "../../errors.ts";
import { countText } from "../../figures.ts";
import { lockedText, withoutEnded } from "../../jobs/hold-job.ts";
import { ownSpoolFolders } from "../../jobs/lookup/job-spool.ts";
import { isSandbox, serviceHostOf } from "../../jobs/service-identity.ts";
import { inputSourceOf } from "../../jobs/sources.ts";
import type { Db } from "../../load/db/db.ts";
import { dropEverything, lockWarehouse, readContent, type SchemaContent } from "../../load/db/drop.ts";
import { readIdentity } from "../../load/db/identity.ts";
import { isMigrated } from "../../load/db/migrate.ts";
import { readOpenErasures } from "../../load/erasure/requests.ts";
import { readPublicationStatus } from "../../load/publication/registration.ts";
import { readHolders } from "../../load/runs/lock.ts";

interface DropFlags {
  readonly trial?: boolean;
  readonly yes?: boolean;
}

interface Dropped {
  /** `limited` without a confirmation. */
  readonly status: "done" | "limited";
  readonly limited_by?: "confirmation";
  /** Sandbox that filled the warehouse; null if there was no trial. */
  readonly service_host: string | null;
  readonly schemas?: readonly SchemaContent[];
  /** Rows of `person`. */
  readonly people?: number;
  /** Erasures, which later runs no longer know. */
  readonly erasures?: number;
  readonly sample_tables?: readonly string[];
  /** Tables that were created with sample rows and were changed since; they stay. */
  readonly sample_tables_left?: readonly string[];
  readonly files?: readonly string[];
  /** Published copies, which stay. */
  readonly copies?: Found["copies"];
  /** Schemas that stay, because they aren't empty or belong to another role. */
  readonly schemas_left?: readonly string[];
  /** Destinations whose working files stay, because another process publishes to them. */
  readonly destinations_left?: readonly string[];
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
  await requireNoErasure(db);
  const found = await findTrial(config, db, serviceHost);
  const document = documentOf(found, serviceHost);
  const list = describe(found);
  const schemas = [...new Set(found.schemas.map(({ name }) => name))].join(", ");
  const trialText = `the trial in ${db.address}, schemas ${schemas},`;
  const { confirm } = yes === true ? { confirm: async () => true } : confirmation(context);
  const what = `This removes ${trialText} for good`;
  if (!(await confirm?.(`${list}\n\n${what}. Continue?`))) {
    const shown = confirm ? null : `${list}\n\n${what}. `;
    return notConfirmed(document, shown);
  }
  const left = await db.transaction(async (session) => {
    requireSame(await lockWarehouse(session), serviceHost);
    await requireNoRun(db);
    await requireNoErasure(db);
    const samples = namesOf(found.samples, true);
    const schemasLeft = await dropEverything(session, found.inputs, samples);
    // Before the commit: if this process ends here, the tables still say what the files are, and the command can be repeated.
    return { schemas: schemasLeft, destinations: await removeFiles(config, found) };
  });
  const remarks = [
    ...left.schemas.map(
      (name) => `Schema ${name} stays: it isn't empty, is public, or belongs to another role.`,
    ),
    ...left.destinations.map(
      (name) => `Working files of ${name} stay, because another process is publishing to it.`,
    ),
  ];
  const done = `✓ Removed ${trialText.replace(/,$/u, "")}.`;
  return result(
    { status: "done", ...document, schemas_left: left.schemas, destinations_left: left.destinations },
    `${yes === true ? `${list}\n\n` : ""}${[done, ...remarks].join("\n")}`,
  );
}

/** @param shown text that the user hasn't seen, because no one could be asked; null after a no */
function notConfirmed(document: ReturnType<typeof documentOf>, shown: string | null): Outcome<Dropped> {
  const reason =
    shown === null ? "because you declined." : "because it needs your confirmation: run again with --yes.";
  const failure = failureOf(new LimitReachedError("confirmation", `Nothing was removed, ${reason}`));
  const { code, message, exitCode } = failure;
  return {
    document: { status: "limited", limited_by: "confirmation", ...document, error: { code, message } },
    text: `${shown ?? ""}${message}`,
    exitCode,
    failure,
  };
}

function documentOf(found: Found, serviceHost: string) {
  const { schemas, people, erasures, samples, folders, files, working, copies } = found;
  return {
    service_host: serviceHost,
    schemas,
    people,
    erasures,
    sample_tables: namesOf(samples, true),
    sample_tables_left: namesOf(samples, false),
    files: [...folders, ...files, ...working.flatMap(({ paths }) => paths)],
    copies,
  };
}

function namesOf(samples: Found["samples"], isUnchanged: boolean): readonly string[] {
  return samples.filter((sample) => sample.isUnchanged === isUnchanged).map(({ name }) => name);
}

/** Requires the service that the user confirmed, with the warehouse locked. */
function requireSame(recorded: string | null, confirmed: string): void {
  if (recorded === confirmed) return;
  throw new StopRunError(
    "warehouse_changed",
    `The warehouse was filled by ${confirmed}, but by now its service is ${recorded ?? "not recorded"}. Nothing was removed. Run again.`,
  );
}

/** Requires that no erasure is pending, which would be forgotten. */
async function requireNoErasure(db: Db): Promise<void> {
  const open = await readOpenErasures(db);
  if (open.length === 0) return;
  throw new FixConfigurationError(
    "erasure_pending",
    `${countText(open.length, "erasure")} ${open.length === 1 ? "is" : "are"} pending: ${open.join(", ")}. Nothing was removed.`,
    [
      {
        path: "warehouse",
        message: "has erasures that are not complete",
        hint: "the next `person-etl run` completes them, or says what they wait for",
      },
    ],
  );
}

/** Requires a sandbox as the service of the warehouse; returns its name. */
async function requireTrial(db: Db): Promise<string> {
  const host = (await readIdentity(db))?.serviceHost ?? null;
  if (host !== null && isSandbox(host)) return host;
  const content = host === null ? "contains no data of any service yet" : `belongs to ${host}`;
  throw new FixConfigurationError(
    "not_a_trial",
    `The warehouse (${db.description}) ${content}: it is no trial. Nothing was removed.`,
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

async function findTrial(config: Config, db: Db, serviceHost: string) {
  const own = Object.values(config.inputs).filter(({ connection }) => connection === null);
  const inputs = await Promise.all(own.map((input) => inputSourceOf(input, [])));
  const content = await db.transaction((session) => readContent(session, inputs));
  const published = (await readPublicationStatus(db)).map(({ destination }) => destination);
  return {
    ...content,
    inputs,
    copies: published.map((name) => {
      const destination = config.publish.find((one) => one.name === name);
      return destination
        ? { name, type: destination.type, place: placeOf(destination) }
        : { name, type: null, place: "no longer configured" };
    }),
    folders: await ownSpoolFolders(config, db),
    files: await filesOf(config, serviceHost),
    working: await Promise.all(
      published.map(async (name) => ({ name, paths: await workingFilesOf(config, name) })),
    ),
  };
}

function placeOf(destination: DestinationConfig): string {
  if (destination.type === "duckdb") return destination.path;
  if (destination.type === "bigquery")
    return `${destination.project}: datasets ${destination.dataset}, ${destination.opsDataset}`;
  return `${destination.catalog}: namespaces ${destination.namespace}, ${destination.opsNamespace}`;
}

/** State of the sandbox that starts by itself, if it filled this warehouse. */
async function filesOf(config: Config, serviceHost: string): Promise<readonly string[]> {
  const { seed, people } = config.sandbox;
  if (config.service.baseUrl !== "sandbox" || serviceHostOf(config) !== serviceHost) return [];
  const path = join(config.dataDir, `sandbox-${seed}-${people}.json`);
  return (await stat(path).catch(() => null)) ? [path] : [];
}

/** Returns the destinations whose working files stay, because another process publishes to them. */
async function removeFiles(config: Config, { folders, files, working }: Found): Promise<readonly string[]> {
  for (const path of [...folders, ...files]) await rm(path, { recursive: true, force: true });
  const left: string[] = [];
  for (const { name, paths } of working) {
    if (paths.length > 0 && !(await removeWorkingFiles(config, name))) left.push(name);
  }
  return left;
}

/** Requires that no process runs a job. */
async function requireNoRun(db: Db): Promise<void> {
  const [holder] = await withoutEnded(await readHolders(db));
  if (holder) throw new JobLockedError(lockedText(holder.job, [holder], "Nothing was removed."));
}

function describe({ schemas, people, erasures, samples, folders, files, working, copies }: Found): string {
  const rows = [
    ...schemas.map(({ name, tables, views }) => ({
      what: name,
      content: `${countText(tables, "table")}, ${countText(views, "view")}`,
    })),
    ...namesOf(samples, true).map((name) => ({ what: name, content: "sample rows" })),
    ...folders.map((path) => ({ what: path, content: "folder of received responses" })),
    ...files.map((path) => ({ what: path, content: "file of the sandbox" })),
    ...working.flatMap(({ name, paths }) =>
      paths.map((path) => ({ what: path, content: `working files of ${name}` })),
    ),
  ];
  const width = Math.max(...rows.map(({ what }) => what.length));
  const foreign = schemas.flatMap((schema) => schema.foreign);
  const withOwnRows = namesOf(samples, false);
  return [
    `A trial with ${countText(people, "invented person", "invented people")}:`,
    ...rows.map(({ what, content }) => `  ${what.padEnd(width)}  ${content}`),
    ...(erasures === 0
      ? []
      : [
          "",
          `${countText(erasures, "erasure")}, which later runs no longer know: repeat ${erasures === 1 ? "it" : "them"} with the real service.`,
        ]),
    ...(copies.length === 0
      ? []
      : [
          "",
          "These copies stay. They hold addresses of your own rows; delete them yourself, or replace them with publish --full:",
          ...copies.map(({ name, place }) => `  ${name}: ${place}`),
        ]),
    ...(withOwnRows.length === 0
      ? []
      : [
          "",
          `These tables no longer have only sample rows, and stay with your rows: ${withOwnRows.join(", ")}.`,
        ]),
    ...(foreign.length === 0 ? [] : ["", `These are not the program's and stay: ${listOf(foreign)}.`]),
  ].join("\n");
}

/** Names shown of what stays; the schema `public` may have many. */
const MOST_NAMES = 20;

function listOf(names: readonly string[]): string {
  const more = names.length - MOST_NAMES;
  return `${names.slice(0, MOST_NAMES).join(", ")}${more > 0 ? `, and ${more} more` : ""}`;
}
