import { z } from "zod";
import { httpUrl, isFileReference, postgresUrl } from "./addresses.ts";
import { text, wholeNumber } from "./described.ts";
import { duration, schemaName } from "./values.ts";

/** Where the tables go unless the configuration says otherwise. */
export const DEFAULT_SCHEMA = "person_data";
/** Where runs, ledger and checkpoints go unless the configuration says otherwise. */
export const DEFAULT_OPS_SCHEMA = "person_data_ops";

const common = {
  schema: schemaName().default(DEFAULT_SCHEMA),
  ops_schema: schemaName().default(DEFAULT_OPS_SCHEMA),
  retry_for: duration("0s").default("5m"),
};

const postgres = z.strictObject({
  type: z.literal("postgres"),
  url: postgresUrl({ allowEmbedded: true }),
  ...common,
});

const location = () =>
  text({ expects: "a BigQuery location such as EU or us-east1" }, (value) => !/^[A-Za-z0-9-]+$/.test(value));

const project = {
  type: z.literal("bigquery"),
  project: text(
    { expects: "the id of a Google Cloud project" },
    (value) => !/^[a-z][a-z0-9:.-]{2,61}[a-z0-9]$/.test(value),
  ),
  credentials: text(
    {
      expects: "`adc` or file:PATH of a service account's key",
      hint: "adc stands for Application Default Credentials",
    },
    (value) => value !== "adc" && !isFileReference(value),
  ).default("adc"),
  impersonate_service_account: text(
    { expects: "the e-mail address of a service account" },
    (value) => !/^[^@\s]+@[^@\s]+$/.test(value),
  ).optional(),
  api_endpoint: httpUrl().optional(),
  maximum_bytes_billed: wholeNumber(10_485_760, Number.MAX_SAFE_INTEGER).optional(),
};

const bigquery = z.strictObject({
  ...project,
  location: location(),
  // What has to be known of each answer that waits takes memory.
  commit_records: wholeNumber(1, 250_000).default(100_000),
  commit_every: duration("1s").default("5m"),
  ...common,
});

/** `warehouse`: what is filled. */
export const warehouse = z.discriminatedUnion("type", [postgres, bigquery]);

/** One of `connections`: another database that inputs live in. */
export const connection = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("postgres"), url: postgresUrl({ allowEmbedded: false }) }),
  z.strictObject({ ...project, location: location().optional(), dataset: schemaName().optional() }),
]);
