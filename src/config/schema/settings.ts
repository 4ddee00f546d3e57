import { z } from "zod";
import { expectationOf } from "./described.ts";
import type { Milliseconds } from "./values.ts";
import { unwrap } from "./walk.ts";

type Camel<Key extends string> = Key extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : Key;

type ProgramName<Key extends string, Value> =
  NonNullable<Value> extends Milliseconds ? `${Camel<Key>}Ms` : Camel<Key>;

type ProgramValue<Value> = Value extends undefined ? null : Value extends Milliseconds ? number : Value;

/** Parsed mapping: keys in camelCase, durations as `…Ms`, null for missing settings. */
export type Settings<Shape extends z.ZodRawShape> = {
  readonly [Key in keyof Shape & string as ProgramName<Key, z.output<Shape[Key]>>]: ProgramValue<
    z.output<Shape[Key]>
  >;
};

/** Declares a mapping by the keys in the file; the output is {@link Settings}. */
export function settings<Shape extends z.ZodRawShape>(shape: Shape) {
  const names = Object.entries(shape).map(([key, schema]) => [key, programName(key, schema)] as const);
  return z.strictObject(shape).transform((value) => {
    const values: Readonly<Record<string, unknown>> = value;
    // One entry per key of the shape, named as the type says.
    return Object.fromEntries(names.map(([key, name]) => [name, values[key] ?? null])) as Settings<Shape>;
  });
}

function programName(key: string, schema: z.core.$ZodType): string {
  const camel = key.replaceAll(/_([a-z])/gu, (_match, letter: string) => letter.toUpperCase());
  return expectationOf(unwrap(schema))?.isDuration ? `${camel}Ms` : camel;
}
