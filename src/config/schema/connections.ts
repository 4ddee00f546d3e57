import { z } from "zod";
import { postgresUrl } from "./addresses.ts";
import { bigQueryLocation, bigQueryProject } from "./bigquery.ts";
import { flag } from "./described.ts";
import { settings } from "./settings.ts";
import { schemaName } from "./values.ts";

/** A Postgres database. */
const postgres = settings({
  type: z.literal("postgres"),
  url: postgresUrl({ allowEmbedded: false }),
  /** Allows connections to another machine without verified TLS. */
  allow_insecure: flag().default(false),
});

/** A BigQuery project, which is billed for reading. */
const bigquery = settings({
  type: z.literal("bigquery"),
  ...bigQueryProject,
  /** Null: the location of the tables. */
  location: bigQueryLocation().optional(),
  /** Default dataset of tables. */
  dataset: schemaName().optional(),
}).transform(({ impersonateServiceAccount: impersonate, ...rest }) => ({ ...rest, impersonate }));

/** `connections`: other databases with inputs, by name. */
export const connections = z.record(z.string(), z.discriminatedUnion("type", [postgres, bigquery]));
