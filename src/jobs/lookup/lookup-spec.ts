import type { Config, ConnectionConfig, InputConfig } from "../../config/config.ts";
import type { LookupJobConfig } from "./lookup-type.ts";
import type { InputConnection, InputSource } from "../../load/inputs/input-source.ts";
import { resolveListFields, resolveScalarFields } from "../../schemas/resolve.ts";
import { type BoundLookup, bindLookup } from "./lookup-types.ts";
import { membersSql } from "../../load/feeds/searches.ts";
import type { ReadSource } from "../job-type.ts";
import { namesOurSchemas } from "../read-source.ts";
import { type Shard, wholeInput } from "../shard.ts";
import type { InputShard, LookupSpec } from "../../load/due/lookup-spec.ts";
import { NORMALIZATION } from "../../load/inputs/normalize.ts";
import { createHash } from "node:crypto";

/** Parts of a request that affect which records are due; `maxRecords` is the lowest of all limits. */
export type SpecRequest = Pick<LookupSpec, "resend" | "acceptParameters" | "maxRecords"> & {
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
  const { source, connection, cursor } = input;
  return {
    name: input.name,
    connection: connection && (await connectionOf(connection)),
    relation: relationOf(source),
    where: input.where,
    orderBy: input.orderBy,
    key: input.key,
    cursor: cursor === null ? null : { column: cursor, overlapMs: input.cursorOverlapMs },
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
  const shard = inputShardOf(job, bound, request.shard);
  const input = await inputSourceOf(job.input, [...bound.inputFields, ...(shard?.by.flat() ?? [])]);
  return {
    job: job.name,
    type: job.type,
    input,
    refreshAfterMs: job.refreshAfterMs,
    refreshUnmatchedAfterMs: job.refreshUnmatchedAfterMs,
    pidFrom: bound.pidFrom,
    dropsInvalidEmails: bound.validEmailsFrom !== null,
    parametersHash: hashParameters(job, fieldsAmong(job.input, bound.inputFields), bound.boughtWith),
    resend: request.resend,
    acceptParameters: request.acceptParameters,
    maxRecords: request.maxRecords,
    shard,
  };
}

const fieldsToResolve: ReadonlySet<string> = new Set([...resolveScalarFields, ...resolveListFields]);

/**
 * Part of the input that a shard reads. Depends only on the row itself, because shards don't start at the same time.
 * Rows that are sent as equal records must be in one shard, even if they differ in invalid addresses.
 */
function inputShardOf(job: LookupJobConfig, bound: BoundLookup, { index, count }: Shard): InputShard | null {
  if (count === 1) return null;
  if (job.type === "validate_emails") return { index, count, by: [] };
  const fields = Object.keys(job.input.fields);
  const others = fields.filter((field) => field !== "emails");
  const resolving = others.filter((field) => fieldsToResolve.has(field));
  const rest = others.filter((field) => !fieldsToResolve.has(field));
  // A row must be in the same shard of a resolve job and of the jobs that send its PIDs.
  if (job.type === "resolve" || bound.pidFrom !== null)
    return { index, count, by: [resolving, rest, ["emails"]] };
  return { index, count, by: bound.validEmailsFrom === null ? [fields] : [others, ["emails"]] };
}

/** Version of the hashed form. Don't change it: every answer would count as bought with other parameters. */
const FORM = "person-etl/parameters/1";

/**
 * Hash of the mapping and request parameters that answers are bought with.
 * @param fields used fields of the mapping with their columns, in order
 */
function hashParameters(
  { type, input }: Pick<LookupJobConfig, "type" | "input">,
  fields: Readonly<Record<string, readonly string[]>>,
  boughtWith: readonly unknown[],
): string {
  const mapping = Object.entries(fields).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return createHash("sha256")
    .update(JSON.stringify([FORM, type, mapping, ...boughtWith, ...(input.normalize ? [NORMALIZATION] : [])]))
    .digest("hex");
}
