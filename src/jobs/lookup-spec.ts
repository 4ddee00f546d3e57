import type { InputConfig, JobConfig } from "../config/config.ts";
import type { InputSource, LookupSpec } from "../load/warehouse.ts";
import { bindLookup } from "./lookup-types.ts";
import { hashParameters } from "./parameters.ts";

/** What of a request changes which records are due; `maxRecords` is the tightest of all limits. */
export type SpecRequest = Pick<LookupSpec, "resend" | "acceptParameters" | "maxRecords">;

/** What a plan or a first look assumes: no flag given. */
export const plainRequest: SpecRequest = { resend: false, acceptParameters: null, maxRecords: null };

/** The input as a job reads it: with the columns of the fields that its endpoint takes. Reads the connection's address. */
export async function inputSourceOf(
  input: InputConfig,
  inputFields: readonly string[],
): Promise<InputSource> {
  const { source, connection, cursor } = input;
  const fields = Object.entries(input.fields).filter(([field]) => inputFields.includes(field));
  return {
    name: input.name,
    connection: connection ? { name: connection.name, url: await connection.url.read() } : null,
    relation:
      source.kind === "sql"
        ? { sql: source.sql }
        : { table: source.schema === null ? [source.table] : [source.schema, source.table] },
    where: input.where,
    orderBy: input.orderBy,
    key: input.key,
    cursor: cursor === null ? null : { column: cursor, overlapMs: input.cursorOverlapMs },
    fields: Object.fromEntries(fields),
  };
}

/** Everything that decides which records of a job are due. */
export async function lookupSpecOf(job: JobConfig, request: SpecRequest): Promise<LookupSpec> {
  const bound = bindLookup(job);
  const input = await inputSourceOf(job.input, bound.inputFields);
  return {
    job: job.name,
    type: job.type,
    input,
    refreshAfterMs: job.refreshAfterMs,
    refreshUnmatchedAfterMs: job.refreshUnmatchedAfterMs,
    pidFrom: bound.pidFrom,
    dropsInvalidEmails: bound.validEmailsFrom !== null,
    parametersHash: hashParameters(job, input.fields),
    resend: request.resend,
    acceptParameters: request.acceptParameters,
    maxRecords: request.maxRecords,
  };
}
