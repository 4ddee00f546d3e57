import type { Context } from "./context.ts";
import type { LookupSpec } from "../../../src/load/lookups/lookup.ts";
import type { InputSource } from "../../../src/load/inputs/input.ts";

/** Milliseconds of a day. */
export const DAY_MS = 24 * 60 * 60 * 1000;

/** The table `crm.people` as an input. */
export const people: InputSource = {
  name: "people",
  connection: null,
  relation: { table: ["crm", "people"] },
  where: null,
  orderBy: null,
  key: ["id"],
  normalize: false,
  fields: { first_name: ["first_name"], last_name: ["last_name"], emails: ["email"], phones: ["phone"] },
};

/** A query as the input of a push. */
export function pushed(sql: string): InputSource {
  return { ...people, key: ["service_pid"], relation: { sql }, fields: {} };
}

const base: LookupSpec = {
  job: "enrich_people",
  type: "enrich",
  source: "people",
  kind: "enrich:these",
  mapping: "these columns",
  legacyParameters: "of version 2",
  input: people,
  refreshAfterMs: null,
  refreshUnmatchedAfterMs: null,
  pidFrom: null,
  dropsInvalidEmails: false,
  erasesMissing: false,
  resend: false,
  acceptParameters: null,
  maxRecords: null,
  shard: null,
};

function specOf(changes: Partial<LookupSpec>): LookupSpec {
  return { ...base, source: changes.input?.name ?? people.name, ...changes };
}

/** An `enrich` job over `crm.people`. */
export function enrichSpec(changes: Partial<LookupSpec> = {}): LookupSpec {
  return specOf(changes);
}

/** A `resolve` job over `crm.people`. */
export function resolveSpec(changes: Partial<LookupSpec> = {}): LookupSpec {
  return specOf({ job: "resolve_people", type: "resolve", kind: "resolve:these", ...changes });
}

/** A `validate_emails` job over `crm.people`. */
export function validateSpec(changes: Partial<LookupSpec> = {}): LookupSpec {
  const input = { ...people, fields: { emails: ["email"] } };
  const own = {
    job: "validate_people",
    type: "validate_emails",
    kind: "validate_emails:these",
    input,
  } as const;
  return specOf({ ...own, ...changes });
}

/** One row of `crm.people`; absent columns are NULL. */
export interface PersonRow {
  readonly id: string | null;
  readonly first_name?: string;
  readonly last_name?: string;
  readonly email?: string;
  readonly phone?: string;
  /** Not mapped. */
  readonly note?: string;
  readonly updated_at?: string;
}

/** Creates `crm.people` with these rows. */
export async function makePeople(context: Context, rows: readonly PersonRow[]): Promise<void> {
  await context.sql(`CREATE TABLE IF NOT EXISTS crm.people (id text, first_name text, last_name text, email text, phone text, note text,
    updated_at timestamptz)`);
  await addPeople(context, rows);
}

/** Adds rows to `crm.people`. */
export async function addPeople(context: Context, rows: readonly PersonRow[]): Promise<void> {
  for (const row of rows) {
    await context.sql("INSERT INTO crm.people VALUES ($1, $2, $3, $4, $5, $6, $7)", [
      row.id,
      row.first_name ?? null,
      row.last_name ?? null,
      row.email ?? null,
      row.phone ?? null,
      row.note ?? null,
      row.updated_at ?? null,
    ]);
  }
}
