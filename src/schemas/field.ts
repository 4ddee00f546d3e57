import { z } from "zod";

/** How sensitive a column is: `direct` names a person, `indirect` can single one out with others, `sensitive` may harm them. */
export type PiiClass = "none" | "indirect" | "direct" | "sensitive";

/** The types a declared column can have; each warehouse maps them to its own (see `load/<warehouse>/ddl.ts`). */
export type ColumnType =
  | "text"
  | "integer" // 64 bits
  | "position" // 0-based index in a nested array, 32 bits
  | "numeric" // exact decimal
  | "boolean"
  | "date"
  | "timestamptz" // an instant, microseconds
  | "timestamp" // wall time without zone, microseconds
  | "json"
  | "uuid"
  | "bytes"
  | "text[]"; // never null, without nulls

/** A scalar field of the interface: its column type, pii class, meaning, and the zod type of its value on the wire. */
export interface Field<Z extends z.ZodType = z.ZodType> {
  readonly kind: "field";
  readonly type: ColumnType;
  readonly pii: PiiClass;
  readonly doc: string;
  readonly zod: Z;
}

function field<Z extends z.ZodType>(type: ColumnType, pii: PiiClass, doc: string, zod: Z): Field<Z> {
  return { kind: "field", type, pii, doc, zod };
}

const decimal = z.union([z.number(), z.string().regex(/^-?\d+(\.\d+)?$/)]);

/** Text, kept code point for code point. Dates whose form the interface doesn't state are text too. */
export const text = (pii: PiiClass, doc: string) => field("text", pii, doc, z.string().nullable());
/** A whole number of at most 64 bits. */
export const integer = (pii: PiiClass, doc: string) => field("integer", pii, doc, z.int().nullable());
/** An exact decimal: a JSON number or a decimal string. */
export const numeric = (pii: PiiClass, doc: string) => field("numeric", pii, doc, decimal.nullable());
/** True or false. */
export const boolean = (pii: PiiClass, doc: string) => field("boolean", pii, doc, z.boolean().nullable());
/** True or false, which the service may also spell "true"/"false", "Y"/"N" or 0/1 (see `convert.ts`, `looseBoolean`). */
export const looseBoolean = (pii: PiiClass, doc: string) => ({
  ...field("boolean", pii, doc, z.union([z.boolean(), z.string(), z.number()]).nullable()),
  loose: true as const,
});
/** A calendar day, `YYYY-MM-DD`. */
export const date = (pii: PiiClass, doc: string) => field("date", pii, doc, z.iso.date().nullable());
/** An instant: ISO 8601 with `Z` or an offset; without a zone it is taken as UTC. */
export const timestamptz = (pii: PiiClass, doc: string) =>
  field("timestamptz", pii, doc, z.string().nullable());
/** Wall time without a zone. */
export const timestamp = (pii: PiiClass, doc: string) => field("timestamp", pii, doc, z.string().nullable());
/** An object whose keys vary; kept whole. */
export const json = (pii: PiiClass, doc: string) => field("json", pii, doc, z.unknown());

/** A list of texts. */
export const texts = (pii: PiiClass, doc: string) =>
  field("text[]", pii, doc, z.array(z.string()).nullable());

/** Scalar fields by the interface's own names. */
export type Fields = Readonly<Record<string, Field>>;

/** The zod shape of scalar fields. */
export type ZodShape<F extends Fields> = { [K in keyof F]: F[K]["zod"] };

/** The zod shape of declared scalar fields, for an object schema. */
export function shapeOf<F extends Fields>(fields: F): ZodShape<F> {
  // The cast restores what Object.fromEntries forgets: each key keeps its own zod type.
  return Object.fromEntries(Object.entries(fields).map(([name, f]) => [name, f.zod])) as ZodShape<F>;
}
