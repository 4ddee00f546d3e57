import { z } from "zod";

/** Any schema. */
export type Schema = z.core.$ZodType;

/** Removes optional, default and transform wrappers. */
export function unwrap(schema: Schema): Schema {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault) {
    return unwrap(schema.def.innerType);
  }
  if (schema instanceof z.ZodPipe) return unwrap(schema.def.in);
  return schema;
}

/** Alternatives of a union; a schema that is not a union is its only alternative. */
export function optionsOf(schema: Schema): readonly Schema[] {
  const inner = unwrap(schema);
  return inner instanceof z.ZodUnion ? inner.def.options.map(unwrap) : [inner];
}

/** Alternative for a value, by discriminator or kind (text, list, mapping). */
export function optionFor(schema: Schema, value: unknown): Schema | null {
  const inner = unwrap(schema);
  if (!(inner instanceof z.ZodUnion)) return inner;
  const options = optionsOf(inner);
  if (inner instanceof z.ZodDiscriminatedUnion) {
    const type = entryOf(value, inner.def.discriminator);
    return options.find((option) => discriminatorOf(option, inner.def.discriminator) === type) ?? null;
  }
  return options.find((option) => isOfKind(option, value)) ?? null;
}

/** Discriminator value of an alternative (`resolve` for jobs of that type). */
export function discriminatorOf(option: Schema, key: string): unknown {
  const literal = option instanceof z.ZodObject ? option.def.shape[key] : undefined;
  return literal instanceof z.ZodLiteral ? literal.def.values[0] : undefined;
}

/** Schema at a path in the file; null if there is none. */
export function schemaAt(root: Schema, path: readonly PropertyKey[], value: unknown): Schema | null {
  const [step, ...rest] = path;
  if (step === undefined) return unwrap(root);
  const below = optionFor(root, value);
  const next = below === null ? undefined : childOf(below, step);
  return next ? schemaAt(next, rest, entryOf(value, step)) : null;
}

/** Value in the file at a path. */
export function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce(entryOf, value);
}

function entryOf(value: unknown, step: PropertyKey): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, step)) return undefined;
  return (value as Record<PropertyKey, unknown>)[step]; // an own property, of whatever kind
}

/** Keys of a mapping; empty for other schemas and for mappings with arbitrary names. */
export function keysOf(schema: Schema | null): readonly string[] {
  return schema instanceof z.ZodObject ? Object.keys(schema.def.shape) : [];
}

function childOf(schema: Schema, step: PropertyKey): Schema | undefined {
  if (schema instanceof z.ZodObject && typeof step === "string") {
    return Object.hasOwn(schema.def.shape, step) ? schema.def.shape[step] : undefined;
  }
  if (schema instanceof z.ZodRecord) return schema.def.valueType;
  if (schema instanceof z.ZodArray) return schema.def.element;
  return undefined;
}

function isOfKind(schema: Schema, value: unknown): boolean {
  if (schema instanceof z.ZodArray) return Array.isArray(value);
  const isMapping = typeof value === "object" && value !== null && !Array.isArray(value);
  if (schema instanceof z.ZodObject || schema instanceof z.ZodRecord) return isMapping;
  return typeof value !== "object";
}

/** Path known to the schema; names chosen by users are `NAME`. */
interface KeyPath {
  readonly path: readonly string[];
  readonly schema: Schema;
}

/** All paths of a schema, once per alternative, parents first. */
export function keyPaths(schema: Schema, path: readonly string[] = []): readonly KeyPath[] {
  return optionsOf(schema).flatMap((option) => {
    if (option instanceof z.ZodObject) {
      return Object.entries(option.def.shape).flatMap(([key, child]) => {
        const childPath = [...path, key];
        return [{ path: childPath, schema: child }, ...keyPaths(child, childPath)];
      });
    }
    if (option instanceof z.ZodRecord) return keyPaths(option.def.valueType, [...path, "NAME"]);
    if (option instanceof z.ZodArray) return keyPaths(option.def.element, path);
    return [];
  });
}
