import { dirname, resolve } from "node:path";
import { z } from "zod";
import type { Problem } from "../errors.ts";
import { type Amount, recordsFor } from "../money.ts";
import { dependenciesOf, type Reference } from "./references.ts";
import type { alerts, ConfigDocument, Prices } from "./schema/document.ts";
import type { inputs, NamedSearch, SqlSource, TableSource } from "./schema/inputs.ts";
import type { CommonJob } from "./schema/jobs.ts";
import type { SecretReference, Secrets } from "./secrets.ts";
import type { TestTimes } from "./settings.ts";

export type { LogLevel, Prices } from "./schema/document.ts";
export type { InputField, SqlSource, TableSource } from "./schema/inputs.ts";

/** The service that is called. */
export interface ServiceConfig
  extends Omit<ConfigDocument["service"], "apiKey" | "userApiKey" | "allowInsecure"> {
  /** Null for the sandbox, which needs no key. */
  readonly apiKey: SecretReference | null;
  /** Key of a user, required by asynchronous person search. */
  readonly userApiKey: SecretReference | null;
}

/** Warehouse: the Postgres database to fill. */
interface WarehouseConfig extends Omit<ConfigDocument["warehouse"], "type" | "url"> {
  /** `embedded`, or a reference to the postgres:// address, which may hold a password. */
  readonly url: SecretReference | "embedded";
}

/** Destination: a copy of the tables in another engine. */
export type DestinationConfig = ReturnType<typeof buildDestination>;

/** Another database with inputs. */
export type ConnectionConfig = ReturnType<typeof buildConnection>;

/** Members of the newest unlocked audience with this query. */
type MembersSource = ReturnType<typeof membersOf>;

/** Input: its rows, their key, and the columns to send. */
export interface InputConfig extends Omit<z.output<typeof inputs>[string], "connection" | "source"> {
  readonly name: string;
  readonly source: TableSource | SqlSource | MembersSource;
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

/** Settings of every job. */
export interface JobConfig extends Omit<CommonJob, "after"> {
  readonly name: string;
  /** Jobs to run first, without duplicates: those in `after` and in other settings. */
  readonly after: readonly string[];
}

/** A job with the settings of its type. */
export type JobOf<Schema extends z.ZodType> = Linked<Omit<z.output<Schema>, keyof JobConfig>> &
  JobConfig &
  Pick<z.output<Schema>, "type" & keyof z.output<Schema>>;

/** Maximum records of all jobs of a type, by UTC day and month; null for no limit. */
export interface BudgetConfig {
  readonly perDay: number | null;
  readonly perMonth: number | null;
  /** Amounts of money from which the numbers of records were computed, by period. */
  readonly amounts?: Readonly<Partial<Record<"day" | "month", Amount>>>;
}

/** The webhook of alerts. */
export interface AlertsConfig extends Omit<z.output<typeof alerts>, "webhook"> {
  /** Its path contains a secret. */
  readonly webhook: SecretReference;
}

/** The pages of `schedule`. */
interface HttpConfig extends Omit<ConfigDocument["http"], "token"> {
  /** Token required from readers; null only if the address is local. */
  readonly token: SecretReference | null;
}

/** The whole configuration: validated, linked, with defaults, and with references instead of secrets. */
export interface Config
  extends TestTimes,
    Pick<ConfigDocument, "logLevel" | "sandbox" | "dataDir" | "retention" | "confirmAbove"> {
  /** Absolute path of the file. */
  readonly file: string;
  /** By job type; also `unlock`. */
  readonly budgets: Readonly<Record<string, BudgetConfig>>;
  /** Null: nothing is shown in money. */
  readonly prices: Prices | null;
  /** Settings that are allowed but risky. */
  readonly warnings: readonly Problem[];
  readonly service: ServiceConfig;
  readonly warehouse: WarehouseConfig;
  readonly privacy: {
    /** Key of the hashes; null if the warehouse generates one. */
    readonly erasureKey: SecretReference | null;
    /** Lifetime of tombstones. */
    readonly erasureNoticeMs: number;
  };
  /** Bytes of received answers waiting to be loaded at which a job stops sending. */
  readonly spoolBytes: number;
  /** Null: no alerts. */
  readonly alerts: AlertsConfig | null;
  readonly http: HttpConfig;
  /** In the order of the file. */
  readonly publish: readonly DestinationConfig[];
  readonly connections: Readonly<Record<string, ConnectionConfig>>;
  readonly inputs: Readonly<Record<string, InputConfig>>;
  /** All jobs in file order, including disabled ones. */
  readonly jobs: readonly JobConfig[];
}

const SPOOL_BYTES = 1024 ** 3;

/** Settings from outside the document. */
type Surroundings = Pick<Config, "file" | "warnings" | "logLevel" | "dataDir" | keyof TestTimes>;

/** Links a document that has passed the schema and all rules. */
export function buildConfig(
  document: ConfigDocument,
  references: readonly Reference[],
  secrets: Secrets,
  surroundings: Surroundings,
): Config {
  const { service, alerts } = document;
  const { allowInsecure: _allowed, ...called } = service;
  const { type: _type, ...warehouse } = document.warehouse;
  const connections = mapEntries(document.connections, (name, connection) =>
    buildConnection(name, connection, secrets, surroundings),
  );
  const connectionOf = (name: string | null) => (name === null ? null : (connections[name] ?? null));
  const inputs = mapEntries(
    document.inputs,
    (name, { connection, source, ...input }): InputConfig => ({
      name,
      ...input,
      source: source.kind === "search" ? membersOf(document, source) : source,
      connection: connectionOf(connection),
    }),
  );
  return {
    ...document,
    ...surroundings,
    service: {
      ...called,
      ca: service.ca && resolve(dirname(surroundings.file), service.ca),
      apiKey: secrets.apiKey,
      userApiKey: secrets.userApiKey,
    },
    warehouse: { ...warehouse, url: secrets.warehouseUrl ?? "embedded" },
    budgets: mapEntries(document.budgets, (name, limits) =>
      buildBudget(limits, document.prices?.perRecord[name]),
    ),
    privacy: { ...document.privacy, erasureKey: secrets.erasureKey },
    spoolBytes: SPOOL_BYTES,
    alerts: alerts && secrets.webhook && { ...alerts, webhook: secrets.webhook },
    http: { ...document.http, token: secrets.httpToken },
    publish: Object.entries(document.publish).map(([name, entry]) =>
      buildDestination(name, entry, surroundings),
    ),
    connections,
    inputs,
    jobs: Object.entries(document.jobs).map(([name, job]): JobConfig => {
      const before = dependenciesOf(references).filter((dependency) => dependency.job === name);
      const links = {
        ...("input" in job ? { input: inputs[String(job.input)] } : {}),
        ...("connection" in job ? { connection: connectionOf(job.connection as string | null) } : {}), // as declared
      };
      return { ...job, ...links, name, after: [...new Set(before.map(({ waitsFor }) => waitsFor))] };
    }),
  };
}

const searching = z.object({ searches: z.record(z.string(), z.object({ query: z.string() })) });

/** Completes the members of a search by its query, as configured. */
function membersOf({ jobs, warehouse }: ConfigDocument, { job, search }: NamedSearch) {
  const query = searching.parse(jobs[job]).searches[search]?.query;
  if (query === undefined) throw new Error(`job ${job} has no search ${search}`);
  return { kind: "members" as const, schema: warehouse.schema, query };
}

type BudgetDocument = ConfigDocument["budgets"][string];

/** Converts amounts of money to records. */
function buildBudget({ perDay, perMonth }: BudgetDocument, price: string | undefined): BudgetConfig {
  const records = (limit: BudgetDocument["perDay"]) => {
    if (limit === null || typeof limit !== "object") return limit;
    if (price === undefined) throw new Error("a budget in money has no price, which a rule refuses");
    return recordsFor(String(limit.amount), price);
  };
  const amounts = Object.entries({ day: perDay, month: perMonth }).flatMap(([period, limit]) =>
    limit !== null && typeof limit === "object" ? [[period, String(limit.amount)] as const] : [],
  );
  return { perDay: records(perDay), perMonth: records(perMonth), amounts: Object.fromEntries(amounts) };
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
  { file }: Surroundings,
) {
  if (connection.type === "bigquery") {
    const { credentials, ...rest } = connection;
    return { name, ...rest, credentialsFile: credentialsFileOf(credentials, file) };
  }
  const url = secrets.connectionUrls.get(name);
  if (!url) throw new Error(`connection ${name} has no address`);
  return { name, type: connection.type, url, allowInsecure: connection.allowInsecure };
}

function buildDestination(
  name: string,
  destination: ConfigDocument["publish"][string],
  { file }: Surroundings,
) {
  if (destination.type === "duckdb") {
    return { ...destination, name, path: resolve(dirname(file), destination.path) };
  }
  const { credentials, ...rest } = destination;
  return { name, ...rest, credentialsFile: credentialsFileOf(credentials, file) };
}

/** Absolute path of a key file; null for Application Default Credentials. */
function credentialsFileOf(credentials: string, file: string): string | null {
  return credentials === "adc" ? null : resolve(dirname(file), credentials.slice("file:".length));
}
