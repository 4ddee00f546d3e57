import { normalize } from "node:path";
import { z } from "zod";
import { type SettingProblem, type NestedProblem } from "../problems.ts";
import { suggest } from "../../suggest.ts";
import { byName, flag, isMapping, settings, text, wholeNumber, withRule } from "./settings.ts";
import { duration } from "./times.ts";
import {
  addressProblem,
  httpUrl,
  isFileReference,
  postgresUrl,
  REMOTE,
  schemaName,
  secret,
} from "./values.ts";
import { tables } from "../../schemas/registry.ts";

function projectId() {
  return text(
    { expects: "the ID of a Google Cloud project" },
    (value) => !/^[a-z][a-z0-9:.-]{2,61}[a-z0-9]$/.test(value),
  );
}

/** Labels of jobs, by their keys, as Google Cloud takes them. */
function labels() {
  const value = text(
    { expects: "at most 63 lower-case letters, digits, _ and -" },
    (found) => !/^[a-z0-9_-]{1,63}$/.test(found),
  );
  return z.record(z.string().regex(/^[a-z][a-z0-9_-]{0,62}$/), value);
}

/** Settings of a BigQuery project: billing and credentials. */
const bigQueryProject = {
  project: projectId(),
  credentials: text(
    {
      expects: "`adc` or file:PATH of a service account's key",
      hint: "adc means Application Default Credentials",
    },
    (value) => value !== "adc" && !isFileReference(value),
  ).default("adc"),
  impersonate_service_account: text(
    { expects: "the e-mail address of a service account" },
    (value) => !/^[^@\s]+@[^@\s]+$/.test(value),
  ).optional(),
  api_endpoint: httpUrl().optional(),
  labels: labels().optional(),
  maximum_bytes_billed: wholeNumber(10_485_760, Number.MAX_SAFE_INTEGER).optional(),
};

function bigQueryLocation() {
  return text(
    { expects: "a BigQuery location such as EU or us-east1" },
    (value) => !/^[A-Za-z0-9-]+$/.test(value),
  );
}

const publishable = tables.filter(({ schema }) => schema !== "state").map(({ name }) => name);

function unknownTable(name: string): SettingProblem | false {
  if (publishable.includes(name)) return false;
  const meant = suggest(name, publishable);
  return {
    message: "is not a table that can be published",
    hint: meant === null ? "see the reference of tables" : `did you mean ${meant}?`,
  };
}

const common = {
  every: duration("1m").optional(),
  /** Tables to publish; null for all. Other tables are dropped in the destination. */
  tables: z
    .array(text({ expects: "the name of a table" }, unknownTable))
    .min(1)
    .optional(),
};

/** Rows of a child refer to its root, so it has to be listed, too. */
function rootsOf({ tables: listed }: Readonly<Record<string, unknown>>): readonly NestedProblem[] {
  const names: readonly unknown[] = Array.isArray(listed) ? listed : [];
  return names.flatMap((table, at) => {
    const parent = tables.find(({ name }) => name === table)?.parent ?? null;
    return parent === null || names.includes(parent)
      ? []
      : [{ path: ["tables", at], message: `requires ${parent}, which isn't listed`, hint: `add ${parent}` }];
  });
}

const bigQueryDestination = settings(
  {
    type: z.literal("bigquery"),
    ...bigQueryProject,
    /** Null: `project`. */
    billing_project: projectId().optional(),
    /** Null: Google's keys. */
    kms_key: text(
      { expects: "projects/P/locations/L/keyRings/R/cryptoKeys/K" },
      (value) => !/^projects\/[^/]+\/locations\/[^/]+\/keyRings\/[^/]+\/cryptoKeys\/[^/]+$/.test(value),
    ).optional(),
    /** Null: the location of the datasets. */
    location: bigQueryLocation().optional(),
    dataset: schemaName().default("person_data"),
    ops_dataset: schemaName().default("person_data_ops"),
    /** Null: `dataset`. */
    staging_dataset: schemaName().optional(),
    ...common,
  },
  rootsOf,
);

const NO_FILE = /^(?::memory:|[a-z][a-z0-9+.-]+:)/iu;

/** Refuses what DuckDB opens as something else than a file: `md:DATABASE`, `:memory:`, `s3://…`. Such a text may contain a token. */
function notAFile(value: string): SettingProblem | false {
  if (!NO_FILE.test(value)) return false;
  return {
    message: "must be the path of a file on this machine, not an address",
    hint: "publish to a file; MotherDuck loads it by CREATE OR REPLACE DATABASE people FROM 'people.duckdb'; a name with a colon needs ./ before it",
  };
}

/** A DuckDB file, replaced by each publication. */
const duckDbDestination = settings(
  { type: z.literal("duckdb"), path: text({ expects: "the path of a file" }, notAFile), ...common },
  rootsOf,
);

/** Settings of S3 and Google Cloud Storage. */
const objectStore = {
  s3_endpoint: httpUrl().optional(),
  s3_region: text(
    { expects: "a region such as eu-central-1" },
    (value) => !/^[a-z0-9-]+$/.test(value),
  ).optional(),
  access_key_id: secret().optional(),
  secret_access_key: secret().optional(),
};

/** Tables of an open format, which many engines read. */
const icebergDestination = settings(
  {
    type: z.literal("iceberg"),
    catalog: httpUrl(),
    warehouse: text({ expects: "the name of a warehouse in the catalog" }).optional(),
    token: secret().optional(),
    credential: secret().optional(),
    token_url: httpUrl().optional(),
    scope: text({ expects: "a scope of OAuth 2" }).default("catalog"),
    namespace: schemaName().default("person_data"),
    ops_namespace: schemaName().default("person_data_ops"),
    /** Null: the catalog keeps no files on the disk. */
    local_folder: text({ expects: "the path of a folder" }).optional(),
    ...objectStore,
    ...common,
  },
  (destination) => [...rootsOf(destination), ...pairsOf(destination)],
);

/** Settings that are used together, or not together. */
function pairsOf(destination: Readonly<Record<string, unknown>>): readonly NestedProblem[] {
  const has = (key: string) => destination[key] !== undefined;
  const needs = (key: string, other: string) =>
    has(key) && !has(other) ? [{ path: [key], message: `requires ${other}`, hint: `add ${other}` }] : [];
  const either = has("token") && has("credential");
  return [
    ...needs("access_key_id", "secret_access_key"),
    ...needs("secret_access_key", "access_key_id"),
    ...needs("token_url", "credential"),
    ...(either ? [{ path: ["credential"], message: "excludes token", hint: "keep one of them" }] : []),
  ];
}

/** Names of what a destination writes to; each belongs to it alone. */
function targetsOf(destination: Readonly<Record<string, unknown>>): readonly string[] {
  const { path } = destination;
  const file = typeof path === "string" ? normalize(path) : path;
  const shared = [file, ...["project", "catalog", "warehouse"].map((key) => destination[key])];
  const own = ["dataset", "ops_dataset", "namespace", "ops_namespace"].map((key) => destination[key]);
  const named = own.filter((name) => name !== undefined);
  return (named.length > 0 ? named : [null]).map((name) => JSON.stringify([shared, name]));
}

/** `publish`: copies of the tables in other engines, by name; each has its own target. */
export const publish = withRule(
  byName(z.discriminatedUnion("type", [bigQueryDestination, duckDbDestination, icebergDestination])),
  (destinations) => {
    const targets = Object.entries(destinations).map(([name, destination]) => ({
      name,
      targets: targetsOf(isMapping(destination) ? destination : {}),
    }));
    return targets.flatMap(({ name, targets: own }, at) => {
      const other = targets
        .slice(0, at)
        .find((earlier) => earlier.targets.some((target) => own.includes(target)));
      const message = `has the same target as ${other?.name}`;
      return other ? [{ path: [name], message, hint: "each destination needs its own target" }] : [];
    });
  },
);

const postgresConnection = settings({
  type: z.literal("postgres"),
  url: postgresUrl({ allowEmbedded: false }),
  allow_insecure: flag().default(false),
});

/** A BigQuery project, which is billed for reading. */
const bigQueryConnection = settings({
  type: z.literal("bigquery"),
  ...bigQueryProject,
  /** Null: the location of the tables. */
  location: bigQueryLocation().optional(),
  dataset: schemaName().optional(),
});

/** Files, or a DuckDB file with tables. */
const duckDbConnection = settings(
  {
    type: z.literal("duckdb"),
    /** Null: the tables of inputs are files. */
    path: text({ expects: "the path of a DuckDB file" }, notDuckDb).optional(),
    token: secret().optional(),
    ...objectStore,
  },
  pairsOf,
);

/** Refuses what DuckDB opens as something else than a file. */
function notDuckDb(value: string): SettingProblem | false {
  if (REMOTE.test(value)) return addressProblem(value) ?? false;
  return (
    NO_FILE.test(value) && { message: "must be the path or address of a file", hint: "remove the prefix" }
  );
}

/** `connections`: other databases with inputs, by name. */
export const connections = byName(
  z.discriminatedUnion("type", [postgresConnection, bigQueryConnection, duckDbConnection]),
);
