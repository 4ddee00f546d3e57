import type { Problem } from "../errors.ts";
import type { SecretReference } from "./secret.ts";

/** How much is logged. */
export type LogLevel = "trace" | "debug" | "info" | "warn" | "error" | "silent";

/** The fields of an input record that a column can be mapped to, by the interface's own names (2.12, 2.14). */
export type InputField =
  | "service_pid"
  | "linkedin_url"
  | "first_name"
  | "middle_name"
  | "last_name"
  | "full_name"
  | "name_suffix"
  | "emails"
  | "phones"
  | "full_address"
  | "address_line_1"
  | "address_line_2"
  | "city"
  | "state"
  | "zipcode";

/** The service that is called. */
export interface ServiceConfig {
  /** `sandbox`, or the address without a slash at its end. */
  readonly baseUrl: string;
  /** Null for the sandbox, which needs none. */
  readonly apiKey: SecretReference | null;
  /** Key of a user, which asynchronous person search needs. */
  readonly userApiKey: SecretReference | null;
  /** Calls in flight, all jobs together; 1 to 64. */
  readonly concurrency: number;
  /** Null: no cap of ours. */
  readonly requestsPerSecond: number | null;
  /** Caps by the endpoint's path (`/v2/enrich`); each replaces `requestsPerSecond` for its endpoint. */
  readonly limits: Readonly<Record<string, { readonly requestsPerSecond: number }>>;
}

/** The population of the sandbox and the sample input tables made from it. */
export interface SandboxConfig {
  readonly seed: number;
  /** People in the population. */
  readonly people: number;
  /** Rows of the sample input tables. */
  readonly inputRows: number;
}

/** The warehouse that is filled. */
export type WarehouseConfig = PostgresConfig | BigQueryConfig;

interface CommonWarehouseConfig {
  /** Schema (dataset) of the people. */
  readonly schema: string;
  /** Schema (dataset) of runs, ledger and checkpoints. */
  readonly opsSchema: string;
  /** How long work is tried again while it can't be reached. */
  readonly retryForMs: number;
}

/** A warehouse in Postgres. */
export interface PostgresConfig extends CommonWarehouseConfig {
  readonly type: "postgres";
  /** `embedded`, or where the postgres:// address comes from (it may hold a password). */
  readonly url: SecretReference | "embedded";
}

/** A warehouse in BigQuery. */
export interface BigQueryConfig extends CommonWarehouseConfig {
  readonly type: "bigquery";
  /** It has none. */
  readonly url: null;
  readonly project: string;
  readonly location: string;
  /** Answers are committed once so many have come, or the first of them has waited so long. */
  readonly commitRecords: number;
  readonly commitEveryMs: number;
  /** Path of a service account's key; null for the application default credentials. */
  readonly credentialsFile: string | null;
  /** Service account to act as; null for none. */
  readonly impersonate: string | null;
  /** Of an emulator; null for Google's. */
  readonly apiEndpoint: string | null;
  /** Bytes; null for no bound. */
  readonly maximumBytesBilled: number | null;
}

/** Another database that inputs live in. */
export type ConnectionConfig = PostgresConnectionConfig | BigQueryConnectionConfig;

/** A Postgres database. */
export interface PostgresConnectionConfig {
  readonly name: string;
  readonly type: "postgres";
  readonly url: SecretReference;
}

/** A project of BigQuery, which pays for reading. */
export interface BigQueryConnectionConfig {
  readonly name: string;
  readonly type: "bigquery";
  readonly project: string;
  /** Where tables are that are named without a dataset; null for nowhere. */
  readonly dataset: string | null;
  /** Null for where the tables are. */
  readonly location: string | null;
  /** Path of a service account's key file; null for Application Default Credentials. */
  readonly credentialsFile: string | null;
  /** Service account to act as; null for none. */
  readonly impersonate: string | null;
  /** Of an emulator; null for Google's. */
  readonly apiEndpoint: string | null;
  /** Bytes; null for no bound. */
  readonly maximumBytesBilled: number | null;
}

/** One input: where its rows are, what tells them apart, and which columns are sent as what. */
export interface InputConfig {
  readonly name: string;
  readonly source: TableSource | SqlSource;
  /** Null: the warehouse itself. */
  readonly connection: ConnectionConfig | null;
  /** SQL condition. */
  readonly where: string | null;
  /** SQL expressions; which rows come first under a cap. */
  readonly orderBy: string | null;
  /** Columns of the key, at least one, in the order of the configuration. */
  readonly key: readonly string[];
  /** Column that moves when a row changes. */
  readonly cursor: string | null;
  readonly cursorOverlapMs: number;
  /** What becomes of what is known of rows that have left the input. */
  readonly onMissing: "keep" | "flag" | "erase";
  /** Missing / known rows, 0 to 1: with more missing nobody is erased. */
  readonly maxMissingRatio: number;
  /** Columns by interface field; `emails` and `phones` have one or more columns, every other field exactly one. */
  readonly fields: Readonly<Partial<Record<InputField, readonly string[]>>>;
}

/** A table or view; names exactly as the database stores them. */
export interface TableSource {
  readonly kind: "table";
  /** Null: whatever the connection's search_path finds. */
  readonly schema: string | null;
  readonly table: string;
}

/** A query; without a semicolon at its end. */
export interface SqlSource {
  readonly kind: "sql";
  readonly sql: string;
}

interface JobBase {
  readonly name: string;
  readonly enabled: boolean;
  /** Jobs that come first: `after` and every job that another key names; no repetitions. */
  readonly after: readonly string[];
  /** Five cron fields. */
  readonly schedule: string | null;
  /** IANA name; of the schedule, and for `endpoint_usage` also of the days that are counted. */
  readonly timezone: string;
}

interface LookupJobBase extends JobBase {
  readonly input: InputConfig;
  /** Null: an answer never expires. */
  readonly refreshAfterMs: number | null;
  /** Null: an answer without a match never expires. */
  readonly refreshUnmatchedAfterMs: number | null;
  /** Null: no cap. */
  readonly maxRecordsPerRun: number | null;
  /** Rejected rows / rows sent, 0 to 1; null: 0.05 from a thousand records on. */
  readonly maxRejectRatio: number | null;
}

/** A job that finds the PID of each input row. */
export interface ResolveJobConfig extends LookupJobBase {
  readonly type: "resolve";
  /** Name of the `validate_emails` job whose `invalid` addresses are left out. */
  readonly validEmailsFrom: string | null;
}

/** A job that validates the e-mail addresses of each input row. */
export interface ValidateEmailsJobConfig extends LookupJobBase {
  readonly type: "validate_emails";
}

/** A job that fetches the person of each input row. */
export interface EnrichJobConfig extends LookupJobBase {
  readonly type: "enrich";
  /** Name of the `resolve` job whose PIDs are sent beside the mapped fields. */
  readonly pidFrom: string | null;
  /** Name of the `validate_emails` job whose `invalid` addresses are left out. */
  readonly validEmailsFrom: string | null;
  /** Empty: left out of the request. */
  readonly returnFields: readonly string[];
  /** Empty: left out of the request. */
  readonly matchConditionFields: readonly string[];
  readonly includePremiumFields: boolean;
}

/** A segment that a job reads: by id, or the one that a `segment_push` job fills. */
export type SegmentConfig =
  | {
      readonly kind: "id";
      /** Lower case. */
      readonly id: string;
      /** What the user calls it; null for nothing. */
      readonly name: string | null;
    }
  | { readonly kind: "job"; readonly job: string; readonly name: string | null };

/** A job that keeps the members of segments. */
export interface SegmentMembersJobConfig extends JobBase {
  readonly type: "segment_members";
  readonly segments: readonly SegmentConfig[];
  readonly fullSweepEveryMs: number;
}

/** A job that makes a segment of what a query gives. */
export interface SegmentPushJobConfig extends JobBase {
  readonly type: "segment_push";
  /** Name under which the segment is created; null only beside `segmentId`. */
  readonly segmentName: string | null;
  /** A segment that exists already, lower case; null to create one. */
  readonly segmentId: string | null;
  readonly description: string | null;
  /** Query that gives `service_pid`; without a semicolon at its end. */
  readonly sql: string;
  /** Null: the warehouse itself. */
  readonly connection: ConnectionConfig | null;
  readonly mode: "append" | "mirror";
  /** Most of the members that the job added that `mirror` may remove in a run, 0 to 1. */
  readonly maxRemoveRatio: number;
  /** Rejected PIDs / PIDs sent, 0 to 1; null: no bound. */
  readonly maxRejectRatio: number | null;
  /** After so long everything that should be a member is added again, in case others have removed it. */
  readonly fullSweepEveryMs: number;
}

/** A job that keeps the death signals of members of segments. */
export interface DeathSignalsJobConfig extends JobBase {
  readonly type: "death_signals";
  readonly segments: readonly SegmentConfig[];
}

/** A job that keeps the usage history of person search. */
export interface SearchUsageJobConfig extends JobBase {
  readonly type: "search_usage";
}

/** A job that keeps the usage of every endpoint; its `timezone` is that of the buckets. */
export interface EndpointUsageJobConfig extends JobBase {
  readonly type: "endpoint_usage";
  readonly bucketingSize: "hour" | "day" | "week" | "month" | "quarter" | "year";
  /** First day, `YYYY-MM-DD`, inclusive. */
  readonly startDate: string;
}

/** Most records that may be sent by all jobs of a type together; null for no bound. UTC. */
export interface BudgetConfig {
  readonly perDay: number | null;
  readonly perMonth: number | null;
}

/** A job that asks about the rows of an input. */
export type LookupJobConfig = ResolveJobConfig | ValidateEmailsJobConfig | EnrichJobConfig;

/** A job that keeps a free feed, or fills a segment. */
export type FeedJobConfig =
  | SegmentMembersJobConfig
  | SegmentPushJobConfig
  | DeathSignalsJobConfig
  | SearchUsageJobConfig
  | EndpointUsageJobConfig;

/** Who is told of what. */
export interface AlertsConfig {
  /** Holds a secret in its path. */
  readonly webhook: SecretReference;
  /** Ends of a job that are told. */
  readonly on: readonly ("failed" | "limited" | "interrupted" | "locked")[];
  /** `auto`: Slack's form for hooks.slack.com. */
  readonly format: "auto" | "json" | "slack";
  /** A job without a success for longer is told of; null for none. */
  readonly staleAfterMs: number | null;
  /** Part of a budget from which on it is told of, 0 to 1. */
  readonly budgetRatio: number;
}

/** How `schedule` goes about its slots. */
export interface SchedulerConfig {
  /** A slot that was missed is caught up within this time; 0: never. */
  readonly catchUpMs: number;
  /** Slots start up to so much later, each job and slot by its own share. */
  readonly jitterMs: number;
}

/** The pages of `schedule`. */
export interface HttpConfig {
  /** Address or host name to listen on. */
  readonly bind: string;
  readonly port: number;
  /** What a reader has to show; null only where nobody else can reach the address. */
  readonly token: SecretReference | null;
}

/** One job. */
export type JobConfig = LookupJobConfig | FeedJobConfig;

/** The whole configuration: checked, linked and with its defaults filled in; holds no secret, only where they are. */
export interface Config {
  /** Absolute path of the file. */
  readonly file: string;
  /** What is allowed but unwise. */
  readonly warnings: readonly Problem[];
  readonly logLevel: LogLevel;
  readonly service: ServiceConfig;
  readonly sandbox: SandboxConfig;
  readonly warehouse: WarehouseConfig;
  /** Absolute path of the folder for the embedded database and received answers. */
  readonly dataDir: string;
  readonly spool: {
    /** Received answers of one job that may wait to be loaded before no further call is started. */
    readonly maxBytes: number;
  };
  readonly budgets: Readonly<Record<LookupJobConfig["type"], BudgetConfig>>;
  /** How erased people are kept out. */
  readonly privacy: {
    /** Key of the hashes; null where the warehouse keeps one itself. */
    readonly erasureKey: SecretReference | null;
    /** How long tombstones tell copies of the tables what to remove. */
    readonly erasureNoticeMs: number;
  };
  /** Milliseconds without a heartbeat after which another process may take a job over. */
  readonly lockLifeMs: number;
  /** Null: nobody is told. */
  readonly alerts: AlertsConfig | null;
  readonly scheduler: SchedulerConfig;
  readonly http: HttpConfig;
  /** Milliseconds that old rows are kept, by table; a table that isn't named keeps its rows for ever. */
  readonly retention: Readonly<Record<string, number>>;
  /** After its first run a job that is due for more than both asks first. */
  readonly confirmAbove: { readonly records: number; readonly ratio: number };
  readonly connections: Readonly<Record<string, ConnectionConfig>>;
  readonly inputs: Readonly<Record<string, InputConfig>>;
  /** Every job of an available type, switched off ones included, in the file's order. */
  readonly jobs: readonly JobConfig[];
  /** Switched-off jobs of types that this version does not have. */
  readonly unavailableJobs: readonly { readonly name: string; readonly type: string }[];
}
