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

/** A value as the driver of Postgres returns it (see load/db/session.ts). */
interface Values {
  readonly text: string;
  readonly integer: number;
  readonly position: number;
  readonly numeric: string;
  readonly boolean: boolean;
  readonly date: string;
  readonly timestamptz: string;
  readonly timestamp: string;
  readonly json: unknown;
  readonly uuid: string;
  readonly bytes: Buffer;
  readonly "text[]": string[];
}

/** Scalar field of the interface, or column of a table. */
export interface Field<Type extends ColumnType = ColumnType, Required extends boolean = boolean> {
  readonly type: Type;
  readonly pii: PiiClass;
  readonly doc: string;
  /** True for NOT NULL; key columns always are. */
  readonly required: Required;
  /** Closed list of our own: all values besides null. Absent for any value. */
  readonly values?: readonly string[];
  /** True for a decimal of our own with at most 18 digits before the point and six after it. */
  readonly isShort?: true;
}

function fieldOf<Type extends ColumnType>(type: Type) {
  function declare(pii: PiiClass, doc: string): Field<Type, Type extends "text[]" ? true : false>;
  function declare(pii: PiiClass, doc: string, required: "required"): Field<Type, true>;
  function declare(pii: PiiClass, doc: string, required?: "required"): Field<Type> {
    return { type, pii, doc, required: type === "text[]" || required !== undefined };
  }
  return declare;
}

/** Text, stored code point for code point; also dates of an undocumented form. */
export const text = fieldOf("text");
/** Text of a closed list of our own, which Postgres checks. Lists of the service may grow, and are plain texts. */
export function oneOf(values: readonly string[], doc: string): Field<"text">;
export function oneOf(values: readonly string[], doc: string, required: "required"): Field<"text", true>;
export function oneOf(values: readonly string[], doc: string, required?: "required"): Field<"text"> {
  return { ...text("none", doc), required: required !== undefined, values };
}
/** Integer of at most 64 bits. */
export const integer = fieldOf("integer");
/** 0-based index in a nested array. */
export const position = fieldOf("position");
/** The column `position` of lists. */
export const listPosition = { position: position("none", "0-based index in the service's list.") };
/** Exact decimal: a JSON number or a decimal string. */
export const numeric = fieldOf("numeric");
/** Declares a decimal of our own that is never long, for which destinations may have a simpler type. */
export const short = <F extends Field<"numeric">>(field: F): F => ({ ...field, isShort: true });
/** Boolean, also sent as "true"/"false", "Y"/"N" or 0/1. */
export const boolean = fieldOf("boolean");
/** Calendar day, `YYYY-MM-DD`. */
export const date = fieldOf("date");
/** Instant: ISO 8601 with `Z` or an offset; without a zone it counts as UTC. */
export const timestamptz = fieldOf("timestamptz");
/** Wall time without a zone. */
export const timestamp = fieldOf("timestamp");
/** Object with varying keys, stored whole. */
export const json = fieldOf("json");
/** UUID of ours; the service's are texts. */
export const uuid = fieldOf("uuid");
/** Hash or address as bytes; not in the interface. */
export const bytes = fieldOf("bytes");
export const texts = fieldOf("text[]");

/** Scalar fields by their name in the interface. */
export type Fields = Readonly<Record<string, Field>>;

/** Fields under names with a prefix (`signal_`). */
type Prefixed<Prefix extends string, F extends Fields> = {
  readonly [Name in keyof F & string as `${Prefix}${Name}`]: F[Name];
};

export function prefixed<Prefix extends string, F extends Fields>(
  prefix: Prefix,
  fields: F,
): Prefixed<Prefix, F> {
  const entries = Object.entries(fields).map(([name, field]) => [`${prefix}${name}`, field]);
  // Object.fromEntries loses the type of each key; the cast restores it.
  return Object.fromEntries(entries) as Prefixed<Prefix, F>;
}

export type RowOf<F extends Fields, Key extends string = never> = {
  readonly [Name in keyof F]:
    | Values[F[Name]["type"]]
    | (Name extends Key ? never : F[Name]["required"] extends true ? never : null);
};
