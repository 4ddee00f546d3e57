import { z } from "zod";
import { postgresUrl } from "./addresses.ts";
import { flag } from "./described.ts";
import { settings } from "./settings.ts";
import { duration, schemaName } from "./values.ts";

/** Default schema of people. */
export const DEFAULT_SCHEMA = "person_data";
/** Default schema of usage, runs and ledger. */
export const DEFAULT_OPS_SCHEMA = "person_data_ops";
/** Default schema of the program's own tables. */
export const DEFAULT_STATE_SCHEMA = "person_data_state";

/** `warehouse`: the Postgres database to fill, the place of record. */
export const warehouse = settings({
  type: z.literal("postgres").optional(),
  url: postgresUrl({ allowEmbedded: true }),
  /** Allows connections to another machine without verified TLS. */
  allow_insecure: flag().default(false),
  schema: schemaName().default(DEFAULT_SCHEMA),
  ops_schema: schemaName().default(DEFAULT_OPS_SCHEMA),
  state_schema: schemaName().default(DEFAULT_STATE_SCHEMA),
  /** Maximum time to retry work while the warehouse is unreachable. */
  retry_for: duration("0s").prefault("5m"),
});
