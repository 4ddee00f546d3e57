import type { Config, ConnectionConfig, InputConfig } from "../../config/config.ts";
import type { LookupJobConfig } from "./lookup-type.ts";
import type { InputConnection, InputSource } from "../../load/inputs/input-source.ts";
import { type BoundLookup, bindLookup } from "./lookup-types.ts";
import { membersSql } from "../../load/feeds/searches.ts";
import type { ReadSource } from "../job-type.ts";
import { namesOurSchemas } from "../read-source.ts";
import { type Shard, wholeInput } from "../shard.ts";
import type { LookupSpec, LookupType } from "../../load/lookups/lookup.ts";
import { NORMALIZATION } from "../../load/inputs/normalize.ts";
import { createHash } from "node:crypto";

/** Parts of a request that affect which records are due; `maxRecords` is the lowest of all limits. */
type SpecRequest = Pick<LookupSpec, "resend" | "acceptParameters" | "maxRecords"> & {
  readonly shard: Shard;
};

/** Request without flags, as assumed by a plan. */
export const plainRequest: SpecRequest = {
  resend: false,
  acceptParameters: null,
  maxRecords: null,
  shard: wholeInput,
};

/** Input as read by a job: with the columns of these fields. Reads the connection's address. */
export async function inputSourceOf(
  input: InputConfig,
  inputFields: readonly string[],
): Promise<InputSource> {
  const { source, connection } = input;
  return {
    name: input.name,
    connection: connection && (await connectionOf(connection)),
    relation: relationOf(source),
    where: input.where,
    orderBy: input.orderBy,
    key: input.key,
    normalize: input.normalize,
    fields: fieldsAmong(input, inputFields),
  };
}

function relationOf(source: InputConfig["source"]): InputSource["relation"] {
  if (source.kind === "sql") return { sql: source.sql };
  if (source.kind === "members") return { sql: membersSql(source.schema, source.query) };
  return { table: source.schema === null ? [source.table] : [source.schema, source.table] };
}

/** Input to verify. */
export function readSourceOf(input: InputConfig, config: Config): ReadSource {
  const { source, connection } = input;
  return {
    subject: `input ${input.name}`,
    path: `inputs.${input.name}`,
    isTable: source.kind === "table",
    isPush: false,
    isOverOurTables:
      source.kind === "members" ||
      (source.kind === "sql" && connection === null && namesOurSchemas(config, source.sql)),
    connection: connection?.name ?? null,
    open: () => inputSourceOf(input, Object.keys(input.fields)),
  };
}

/** Connection of another database. Reads its address. */
export async function connectionOf(connection: ConnectionConfig): Promise<InputConnection> {
  if (connection.type !== "postgres") return connection;
  const { name, type, url, allowInsecure } = connection;
  return { type, name, url: await url.read(), readUrl: () => url.read(), allowInsecure };
}

function fieldsAmong(input: InputConfig, inputFields: readonly string[]): InputSource["fields"] {
  return Object.fromEntries(Object.entries(input.fields).filter(([field]) => inputFields.includes(field)));
}

/** Builds the spec that determines which records of a job are due. */
export async function lookupSpecOf(job: LookupJobConfig, request: SpecRequest): Promise<LookupSpec> {
  const bound = bindLookup(job);
  const { shard } = request;
  const fields = fieldsAmong(job.input, bound.inputFields);
  return {
    job: job.name,
    type: job.type,
    source: job.input.name,
    kind: kindOf(job.type, bound.requestParameters),
    mapping: hashOf([
      Object.entries(fields).toSorted(([a], [b]) => (a < b ? -1 : 1)),
      mappingOptions(job, bound),
    ]),
    legacyParameters: hashParameters(job, fields, bound.boughtWith),
    input: await inputSourceOf(job.input, bound.inputFields),
    refreshAfterMs: job.refreshAfterMs,
    refreshUnmatchedAfterMs: job.refreshUnmatchedAfterMs,
    pidFrom: bound.pidFrom,
    dropsInvalidEmails: bound.validEmailsFrom !== null,
    erasesMissing: job.input.onMissing === "erase",
    resend: request.resend,
    acceptParameters: request.acceptParameters,
    maxRecords: request.maxRecords,
    shard: shard.count === 1 ? null : shard,
  };
}

/** Kind of the answers to requests with these parameters besides the records. The order of a list makes no difference. */
export function kindOf(type: LookupType, parameters: Readonly<Record<string, unknown>>): string {
  const sorted = Object.entries(parameters)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => [
      name,
      Array.isArray(value) ? [...new Set(value.map(String))].toSorted() : value,
    ]);
  return `${type}:${hashOf(sorted).slice(0, 12)}`;
}

function mappingOptions(
  { input }: LookupJobConfig,
  { pidFrom, validEmailsFrom }: BoundLookup,
): readonly unknown[] {
  return [pidFrom !== null, validEmailsFrom !== null, input.normalize ? NORMALIZATION : null];
}

function hashOf(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex");
}

/** Version of the form that version 2 hashed, by which its answers are recognized. */
const LEGACY_FORM = "person-etl/parameters/1";

/**
 * Hash of the mapping and request parameters in version 2.
 * @param fields used fields of the mapping with their columns, in order
 */
function hashParameters(
  { type, input }: Pick<LookupJobConfig, "type" | "input">,
  fields: Readonly<Record<string, readonly string[]>>,
  boughtWith: readonly unknown[],
): string {
  const mapping = Object.entries(fields).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return hashOf([LEGACY_FORM, type, mapping, ...boughtWith, ...(input.normalize ? [NORMALIZATION] : [])]);
}
