import { dirname, join, resolve } from "node:path";
import type { z } from "zod";
import type { Problem } from "../errors.ts";
import type { LogLevel } from "../log.ts";
import type { MoneyBudget, Price } from "../money.ts";
import { dependenciesOf, type Reference } from "./references.ts";
import type { ConfigDocument } from "./schema/document.ts";
import type { inputs, NamedSearch, SqlSource, TableSource } from "./schema/inputs.ts";
import type { CommonJob } from "./schema/jobs.ts";
import type { Secrets } from "./secrets.ts";
import { valueAt } from "./schema/settings.ts";
import type { TestTimes } from "./settings.ts";

export type { Prices } from "./schema/prices.ts";
export type { InputField, SqlSource, TableSource } from "./schema/inputs.ts";

/** The whole configuration: validated, linked, with defaults, and with references instead of secrets. */
export type Config = ReturnType<typeof buildConfig>;

export type AlertsConfig = NonNullable<Config["alerts"]>;

export type DestinationConfig = Config["publish"][number];

export type ConnectionConfig = ReturnType<typeof buildConnection>;

/** Budget of all jobs of a type. */
export interface BudgetConfig {
  /** Maximum records per UTC day; null for no limit, or one in money. */
  readonly perDay: number | null;
  /** The same per UTC month. */
  readonly perMonth: number | null;
  /** Null if neither limit is in money. */
  readonly money: MoneyBudget | null;
}

export interface InputConfig extends Omit<z.output<typeof inputs>[string], "connection" | "source"> {
  readonly name: string;
  /** A table, a query, or the members of the newest unlocked audience with a query. */
  readonly source: TableSource | SqlSource | ReturnType<typeof membersOf>;
  /** Null: the warehouse itself. */
  readonly connection: ConnectionConfig | null;
}

/** Settings with inputs and connections in place of their names. */
type Linked<Settings> = {
  readonly [Key in keyof Settings]: Key extends "input"
    ? InputConfig
    : Key extends "connection"
      ? ConnectionConfig | null
      : Settings[Key];
};

export interface JobConfig extends Omit<CommonJob, "after"> {
  readonly name: string;
  /** Jobs to run first, without duplicates: those in `after` and in other settings. */
  readonly after: readonly string[];
}

/** A job with the settings of its type. */
export type JobOf<Schema extends z.ZodType> = Linked<Omit<z.output<Schema>, keyof JobConfig>> &
  JobConfig &
  Pick<z.output<Schema>, "type" & keyof z.output<Schema>>;

/** Settings from outside the document. */
interface OuterSettings extends TestTimes {
  /** Absolute path of the file. */
  readonly file: string;
  /** Settings that are allowed but risky. */
  readonly warnings: readonly Problem[];
  readonly logLevel: LogLevel;
  /** Line of a setting, by the text of its path; null if the file doesn't have it. */
  readonly lineOf: LineOf;
  /** Absolute path. */
  readonly dataDir: string;
}

/** Returns the 1-based line of a setting in the configuration file, by the text of its path; null if it isn't there. */
export type LineOf = (path: string) => number | null;

/** Bytes of received answers waiting to be loaded at which a job stops sending. */
const SPOOL_BYTES = 1024 ** 3;

/** Links a document that has passed the schema and all rules. */
export function buildConfig(
  document: ConfigDocument,
  references: readonly Reference[],
  secrets: Secrets,
  outer: OuterSettings,
) {
  const { alerts, warehouse, prices } = document;
  const { allowInsecure: _allowed, ...service } = document.service;
  const { apiKey, userApiKey, erasureKey, webhook } = secrets;
  const folder = dirname(outer.file);
  const connections = mapEntries(document.connections, (name, connection) =>
    buildConnection(name, connection, secrets, { folder, scratch: join(outer.dataDir, "inputs") }),
  );
  const connectionOf = (name: string | null) => (name === null ? null : (connections[name] ?? null));
  const inputs = mapEntries(document.inputs, (name, { connection: from, source, ...input }): InputConfig => {
    const connection = connectionOf(from);
    return { name, ...input, source: sourceOf(document, source, connection), connection };
  });
  const jobs: readonly JobConfig[] = Object.entries(document.jobs).map(([name, job]) => {
    const before = dependenciesOf(references).filter((dependency) => dependency.job === name);
    const links = {
      ...("input" in job ? { input: inputs[String(job.input)] } : {}),
      ...("connection" in job ? { connection: connectionOf(job.connection as string | null) } : {}), // as declared
    };
    return { ...job, ...links, name, after: [...new Set(before.map(({ waitsFor }) => waitsFor))] };
  });
  return {
    ...document,
    ...outer,
    // The sandbox needs no key; only asynchronous person search needs the key of a user.
    service: { ...service, ca: service.ca && resolve(folder, service.ca), apiKey, userApiKey },
    warehouse: { ...warehouse, url: secrets.warehouseUrl ?? ("embedded" as const) },
    budgets: mapEntries(document.budgets, (name, limits) => buildBudget(limits, prices?.byBudget[name])),
    // Without a key of the user, the warehouse generates one.
    privacy: { ...document.privacy, erasureKey },
    spoolBytes: SPOOL_BYTES,
    alerts: alerts && webhook && { ...alerts, webhook },
    http: { ...document.http, token: secrets.httpToken },
    // In the order of the file.
    publish: Object.entries(document.publish).map(([name, entry]) =>
      buildDestination(name, entry, secrets, folder),
    ),
    connections,
    inputs,
    // All jobs in file order, including disabled ones.
    jobs,
  };
}

/** Completes a source: tables of a connection that reads files are paths. */
function sourceOf(
  document: ConfigDocument,
  source: z.output<typeof inputs>[string]["source"],
  connection: ConnectionConfig | null,
): InputConfig["source"] {
  if (source.kind === "search") return membersOf(document, source);
  if (source.kind === "sql") return source;
  const { text, ...table } = source;
  const readsFiles = connection?.type === "duckdb" && connection.path === null;
  return readsFiles ? { ...table, schema: null, table: text } : table;
}

/** Completes the members of a search by its query, as configured. */
function membersOf({ jobs, warehouse }: ConfigDocument, { job, search }: NamedSearch) {
  const query = valueAt(jobs, [job, "searches", search, "query"]);
  if (typeof query !== "string") throw new Error(`job ${job} has no search ${search}`);
  return { kind: "members" as const, schema: warehouse.schema, query };
}

/** Separates limits in records from those in money. */
function buildBudget(
  { perDay, perMonth }: ConfigDocument["budgets"][string],
  price: Price | undefined,
): BudgetConfig {
  const recordsOf = (limit: typeof perDay) => (typeof limit === "number" ? limit : null);
  const amountOf = (limit: typeof perDay) =>
    typeof limit === "object" && limit ? String(limit.amount) : null;
  const [day, month] = [amountOf(perDay), amountOf(perMonth)];
  const isInMoney = day !== null || month !== null;
  if (isInMoney && !price) throw new Error("a budget in money has no price, which a rule refuses");
  return {
    perDay: recordsOf(perDay),
    perMonth: recordsOf(perMonth),
    money: isInMoney && price ? { price, day, month } : null,
  };
}

function mapEntries<T, R>(
  section: Readonly<Record<string, T>>,
  build: (name: string, entry: T) => R,
): Readonly<Record<string, R>> {
  return Object.fromEntries(Object.entries(section).map(([name, entry]) => [name, build(name, entry)]));
}

function buildConnection(
  name: string,
  connection: ConfigDocument["connections"][string],
  secrets: Secrets,
  places: { readonly folder: string; readonly scratch: string },
) {
  if (connection.type === "duckdb") {
    const { token: webToken, accessKeyId, secretAccessKey } = keysOf(secrets.connections.get(name));
    return { ...connection, name, webToken, accessKeyId, secretAccessKey, places: () => places };
  }
  if (connection.type === "bigquery") return { name, ...buildProject(connection, places.folder) };
  const url = secrets.connectionUrls.get(name);
  if (!url) throw new Error(`connection ${name} has no address`);
  return { name, type: connection.type, url, allowInsecure: connection.allowInsecure };
}

function buildDestination(
  name: string,
  destination: ConfigDocument["publish"][string],
  secrets: Secrets,
  folder: string,
) {
  if (destination.type === "duckdb") {
    return { ...destination, name, path: resolve(folder, destination.path) };
  }
  if (destination.type === "iceberg") {
    const localFolder = destination.localFolder && resolve(folder, destination.localFolder);
    return { ...destination, name, localFolder, ...keysOf(secrets.publish.get(name)) };
  }
  return { name, ...buildProject(destination, folder) };
}

/** Keys of an entry of `connections` or `publish`; null for those that it doesn't have. */
function keysOf(keys: ReturnType<Secrets["publish"]["get"]>) {
  const { token = null, credential = null, access_key_id, secret_access_key } = keys ?? {};
  return {
    token,
    credential,
    accessKeyId: access_key_id ?? null,
    secretAccessKey: secret_access_key ?? null,
  };
}

/** Completes a BigQuery project. Its key is in a file; null for Application Default Credentials. */
function buildProject<
  Project extends { readonly credentials: string; readonly impersonateServiceAccount: string | null },
>({ credentials, impersonateServiceAccount: impersonate, ...rest }: Project, folder: string) {
  const credentialsFile = credentials === "adc" ? null : resolve(folder, credentials.slice("file:".length));
  return { ...rest, impersonate, credentialsFile };
}
