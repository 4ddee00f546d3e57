import { z } from "zod";
import { postgresUrl } from "./addresses.ts";
import { flag } from "./described.ts";
import { settings } from "./settings.ts";
import { duration, schemaName } from "./values.ts";

/** Schema of the people unless the configuration names another. */
export const DEFAULT_SCHEMA = "person_data";
/** Schema of usage, runs and ledger unless the configuration names another. */
export const DEFAULT_OPS_SCHEMA = "person_data_ops";
/** Schema of the program's own tables unless the configuration names another. */
export const DEFAULT_STATE_SCHEMA = "person_data_state";

/** `warehouse`: the Postgres database that is filled, the place of record. */
export const warehouse = settings({
  type: z.literal("postgres").optional(),
  url: postgresUrl({ allowEmbedded: true }),
  /** Allows connections to another machine without verified TLS. */
  allow_insecure: flag().default(false),
  schema: schemaName().default(DEFAULT_SCHEMA),
  ops_schema: schemaName().default(DEFAULT_OPS_SCHEMA),
  state_schema: schemaName().default(DEFAULT_STATE_SCHEMA),
  /** Time that work is retried while the warehouse can't be reached. */
  retry_for: duration("0s").prefault("5m"),
});
