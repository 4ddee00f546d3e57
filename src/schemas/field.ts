import { z } from "zod";

/** Sensitivity of a column: `direct` identifies a person, `indirect` does so in combination, `sensitive` may harm them. */
export type PiiClass = "none" | "indirect" | "direct" | "sensitive";

/** Types of declared columns; Postgres and each destination map them to their own. */
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

/** Scalar field of the interface: column type, PII class, description, and zod type on the wire. */
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

/** Text, stored code point for code point; also dates of an undocumented form. */
export const text = (pii: PiiClass, doc: string) => field("text", pii, doc, z.string().nullable());
/** Integer of at most 64 bits. */
export const integer = (pii: PiiClass, doc: string) => field("integer", pii, doc, z.int().nullable());
/** Exact decimal: a JSON number or a decimal string. */
export const numeric = (pii: PiiClass, doc: string) => field("numeric", pii, doc, decimal.nullable());
/** Boolean, also sent as "true"/"false", "Y"/"N" or 0/1. */
export const boolean = (pii: PiiClass, doc: string) =>
  field("boolean", pii, doc, z.union([z.boolean(), z.string(), z.number()]).nullable());
/** Calendar day, `YYYY-MM-DD`. */
export const date = (pii: PiiClass, doc: string) => field("date", pii, doc, z.iso.date().nullable());
/** Instant: ISO 8601 with `Z` or an offset; without a zone it counts as UTC. */
export const timestamptz = (pii: PiiClass, doc: string) =>
  field("timestamptz", pii, doc, z.string().nullable());
/** Wall time without a zone. */
export const timestamp = (pii: PiiClass, doc: string) => field("timestamp", pii, doc, z.string().nullable());
/** Object with varying keys, stored whole. */
export const json = (pii: PiiClass, doc: string) => field("json", pii, doc, z.unknown());

/** List of texts. */
export const texts = (pii: PiiClass, doc: string) =>
  field("text[]", pii, doc, z.array(z.string()).nullable());

/** Scalar fields by their name in the interface. */
export type Fields = Readonly<Record<string, Field>>;

/** Zod shape of scalar fields. */
type ZodShape<F extends Fields> = { [K in keyof F]: F[K]["zod"] };

/** Returns the zod shape of declared scalar fields, for an object schema. */
export function shapeOf<F extends Fields>(fields: F): ZodShape<F> {
  // Object.fromEntries loses the zod type of each key; the cast restores it.
  return Object.fromEntries(Object.entries(fields).map(([name, f]) => [name, f.zod])) as ZodShape<F>;
}
