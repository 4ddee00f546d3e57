import type { z } from "zod";
import type { Problem } from "../errors.ts";
import type { Amount } from "../money.ts";
import type { connections } from "./schema/connections.ts";
import type { ConfigDocument, logLevels } from "./schema/document.ts";
import type { inputs, SqlSource, TableSource } from "./schema/inputs.ts";
import type { CommonJob } from "./schema/jobs.ts";
import type { alerts } from "./schema/operations.ts";
import type { Prices } from "./schema/prices.ts";
import type { publish } from "./schema/publish.ts";
import type { SecretReference } from "./secret.ts";

export type { Prices } from "./schema/prices.ts";
export type { InputField, SqlSource, TableSource } from "./schema/inputs.ts";

/** Log level. */
export type LogLevel = (typeof logLevels)[number];

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

type DestinationDocument = z.output<typeof publish>[string];

/** Destination: a copy of the tables in another engine. */
export type DestinationConfig = BigQueryDestinationConfig | DuckDbDestinationConfig;

/** Two datasets in BigQuery. */
interface BigQueryDestinationConfig
  extends Omit<Extract<DestinationDocument, { type: "bigquery" }>, "credentials"> {
  readonly name: string;
  /** Path of a service account's key; null for Application Default Credentials. */
  readonly credentialsFile: string | null;
}

/** A DuckDB file, by its absolute path. */
type DuckDbDestinationConfig = Extract<DestinationDocument, { type: "duckdb" }> & {
  readonly name: string;
};

type ConnectionDocument = z.output<typeof connections>[string];

/** Another database with inputs. */
export type ConnectionConfig = PostgresConnectionConfig | BigQueryConnectionConfig;

/** A Postgres database. */
interface PostgresConnectionConfig {
  readonly name: string;
  readonly type: "postgres";
  readonly url: SecretReference;
  readonly allowInsecure: boolean;
}

/** A BigQuery project, which is billed for reading. */
interface BigQueryConnectionConfig
  extends Omit<Extract<ConnectionDocument, { type: "bigquery" }>, "credentials"> {
  readonly name: string;
  /** Path of a service account's key; null for Application Default Credentials. */
  readonly credentialsFile: string | null;
}

/** Members of the newest unlocked audience with this query. */
export interface MembersSource {
  readonly kind: "members";
  /** Schema of the warehouse. */
  readonly schema: string;
  readonly query: string;
}

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
  extends Pick<
    ConfigDocument,
    "logLevel" | "sandbox" | "dataDir" | "spool" | "scheduler" | "retention" | "confirmAbove"
  > {
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
  /** Milliseconds without a heartbeat after which another process may take over a job. */
  readonly lockLifeMs: number;
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
