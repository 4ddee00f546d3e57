import { z } from "zod";
import { secret, serviceUrl } from "./addresses.ts";
import { connections } from "./connections.ts";
import { choice, flag, positiveNumber, text, wholeNumber } from "./described.ts";
import { inputs } from "./inputs.ts";
import type { CommonJob, JobDeclaration } from "./jobs.ts";
import { alerts, confirmAbove, http, privacy, retention, scheduler, spool } from "./operations.ts";
import { budget, type Prices, pricesOf } from "./prices.ts";
import { publish } from "./publish.ts";
import { type Settings, settings } from "./settings.ts";
import type { Schema } from "./walk.ts";
import { warehouse } from "./warehouse.ts";

/** Paths of the service's endpoints (interface section 4), without ids. */
export const endpointPaths = [
  "/v1/resolve",
  "/v2/validate_emails",
  "/v2/enrich",
  "/v2/segments/create",
  "/v2/segments/members",
  "/v2/segments/members/add",
  "/v2/segments/members/remove",
  "/v2/segments/signals/deaths",
  "/person-search/v0/search",
  "/person-search/v0/search-jobs",
  "/person-search/v0/contact-jobs",
  "/person-search/v0/usage",
  "/usage",
] as const;

const limit = settings({ requests_per_second: positiveNumber() });

/** Rate limits by endpoint path; each overrides `requests_per_second`. */
const limits = z
  .strictObject(Object.fromEntries(endpointPaths.map((path) => [path, limit.optional()])))
  .transform((byPath) =>
    Object.fromEntries(
      Object.entries(byPath).flatMap(([path, value]) =>
        value === undefined ? [] : [[path, value] as const],
      ),
    ),
  );

/** `service`: address, key and rates. */
const service = settings({
  base_url: serviceUrl(),
  api_key: secret().optional(),
  /** Key of a user, required by asynchronous person search. */
  user_api_key: secret().optional(),
  /** PEM file of the authority that signed the service's certificate. */
  ca: text({ expects: "the path of a PEM file" }).optional(),
  /** Maximum calls in flight, for all jobs. */
  concurrency: wholeNumber(1, 64).default(8),
  requests_per_second: positiveNumber().optional(),
  limits: limits.prefault({}),
  allow_insecure: flag().default(false),
});

/** `sandbox`: population of `base_url: sandbox`, and its sample input tables. */
const sandbox = settings({
  seed: wholeNumber(0, 2 ** 32 - 1).default(1),
  people: wholeNumber(1, 100_000_000).default(1_000_000),
  input_rows: wholeNumber(1, 100_000_000).default(15_000),
});

/** Log levels, from most verbose to silent. */
export const logLevels = ["trace", "debug", "info", "warn", "error", "silent"] as const;

/** Sections that don't depend on the job types. */
const sections = {
  log_level: choice(logLevels).default("info"),
  service,
  sandbox: sandbox.prefault({}),
  warehouse,
  publish: publish.default({}),
  data_dir: text({ expects: "a folder" }).default(".person-etl"),
  spool: spool.prefault({}),
  confirm_above: confirmAbove.prefault({}),
  connections: connections.default({}),
  inputs: inputs.default({}),
  privacy: privacy.prefault({}),
  retention: retention.prefault({}),
  alerts: alerts.optional(),
  scheduler: scheduler.prefault({}),
  http: http.prefault({}),
};

/** Parsed content of a valid file. */
export type ConfigDocument = Settings<typeof sections> & {
  /** By job type; also `unlock`. */
  readonly budgets: Readonly<Record<string, z.output<typeof budget>>>;
  readonly prices: Prices | null;
  readonly jobs: Readonly<Record<string, CommonJob>>;
};

/** Name of the budget and price of everything that unlocks bill. */
export const UNLOCK = "unlock";

/** Names of budgets and prices. */
export function budgetNames(jobTypes: readonly JobDeclaration[]): readonly string[] {
  return [...jobTypes.filter(({ isBilled }) => isBilled).map(({ type }) => type), UNLOCK];
}

/** Schema of whole files. */
type DocumentSchema = Schema & z.ZodType<ConfigDocument>;

/** Builds the schema of the whole file; `rules/` check relations between its parts. */
export function documentSchemaOf(jobTypes: readonly JobDeclaration[]): DocumentSchema {
  const [first, ...options] = jobTypes.map((type) => type.settings);
  if (!first) throw new Error("there is no job type");
  const billed = budgetNames(jobTypes);
  const budgets = Object.fromEntries(billed.map((name) => [name, budget.optional()]));
  const schema = settings({
    ...sections,
    budgets: z.strictObject(budgets).prefault({}),
    prices: pricesOf(billed).optional(),
    jobs: z.record(z.string(), z.discriminatedUnion("type", [first, ...options])),
  });
  return schema as DocumentSchema;
}
