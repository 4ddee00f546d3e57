import { z } from "zod";
import { tables } from "../../schemas/registry.ts";
import type { Complaint } from "../problems.ts";
import { suggest } from "../suggest.ts";
import { bigQueryLocation, bigQueryProject } from "./bigquery.ts";
import { text } from "./described.ts";
import { settings } from "./settings.ts";
import { duration, schemaName } from "./values.ts";

const publishable = tables.filter(({ schema }) => schema !== "state").map(({ name }) => name);

function unknownTable(name: string): Complaint | false {
  if (publishable.includes(name)) return false;
  const meant = suggest(name, publishable);
  return {
    message: "is not a table that can be published",
    hint: meant === null ? "see the reference of tables" : `did you mean ${meant}?`,
  };
}

const common = {
  /** Interval of publications while jobs run; changes are also published at the end of each run. */
  every: duration("1m").optional(),
  /** Tables to publish; null for all. Other tables are dropped in the destination. */
  tables: z
    .array(text({ expects: "the name of a table" }, unknownTable))
    .min(1)
    .optional(),
};

const { maximum_bytes_billed: _bytes, ...project } = bigQueryProject;

/** Two datasets in BigQuery. */
const bigquery = settings({
  type: z.literal("bigquery"),
  ...project,
  /** Null: the location of the datasets. */
  location: bigQueryLocation().optional(),
  dataset: schemaName().default("person_data"),
  ops_dataset: schemaName().default("person_data_ops"),
  ...common,
}).transform(({ impersonateServiceAccount: impersonate, ...rest }) => ({ ...rest, impersonate }));

/** A DuckDB file, replaced by each publication. */
const duckdb = settings({
  type: z.literal("duckdb"),
  path: text({ expects: "the path of a file" }),
  ...common,
});

/** `publish`: copies of the tables in other engines, by name. */
export const publish = z.record(z.string(), z.discriminatedUnion("type", [bigquery, duckdb]));
