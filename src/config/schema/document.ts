import { z } from "zod";
import { choice, text } from "./described.ts";
import { inputs } from "./inputs.ts";
import { job } from "./jobs.ts";
import { alerts, budgets, confirmAbove, http, privacy, retention, scheduler, spool } from "./operations.ts";
import { sandbox, service } from "./service.ts";
import { connection, warehouse } from "./warehouse.ts";

/** How much is logged, from most to nothing. */
export const logLevels = ["trace", "debug", "info", "warn", "error", "silent"] as const;

/** The whole file, by the file's own names; what ties one part to another is checked by `rules/`. */
export const documentSchema = z.strictObject({
  log_level: choice(logLevels).default("info"),
  service,
  sandbox: sandbox.prefault({}),
  budgets: budgets.prefault({}),
  warehouse,
  data_dir: text({ expects: "a folder" }).default(".person-etl"),
  spool: spool.prefault({}),
  confirm_above: confirmAbove.prefault({}),
  connections: z.record(z.string(), connection).default({}),
  inputs: inputs.default({}),
  privacy: privacy.prefault({}),
  retention: retention.prefault({}),
  alerts: alerts.optional(),
  scheduler: scheduler.prefault({}),
  http: http.prefault({}),
  jobs: z.record(z.string(), job),
});

/** The file's content once the schema has passed it. */
export type ConfigDocument = z.output<typeof documentSchema>;
