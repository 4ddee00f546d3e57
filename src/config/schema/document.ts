import { z } from "zod";
import { connections } from "./connections.ts";
import { choice, text } from "./described.ts";
import { inputs } from "./inputs.ts";
import type { CommonJob, JobDeclaration } from "./jobs.ts";
import { alerts, confirmAbove, http, privacy, retention, scheduler, spool } from "./operations.ts";
import { budget, pricesOf, type Prices } from "./prices.ts";
import { publish } from "./publish.ts";
import { sandbox, service } from "./service.ts";
import { type Settings, settings } from "./settings.ts";
import type { Schema } from "./walk.ts";
import { warehouse } from "./warehouse.ts";

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
export type DocumentSchema = Schema & z.ZodType<ConfigDocument>;

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
