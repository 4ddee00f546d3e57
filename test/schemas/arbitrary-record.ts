import { enrichEndpoint } from "../../src/schemas/enrich.ts";
import type { ColumnType, Fields } from "../../src/schemas/field.ts";
import * as fc from "../support/fast-check.ts";

type Types = Readonly<Record<string, ColumnType>>;

const typesOf = (fields: Fields): Types =>
  Object.fromEntries(Object.entries(fields).map(([name, { type }]) => [name, type]));

// flatten-mapping.test.ts holds that these are the fields of the interface.

/** Scalar fields of an enriched record with their types. */
export const scalarTypes = typesOf(enrichEndpoint.result.fields);

/** Scalar fields of each list's elements. */
export const listTypes: Readonly<Record<string, Types>> = Object.fromEntries(
  Object.entries(enrichEndpoint.result.lists).map(([name, { fields }]) => [name, typesOf(fields)]),
);

/** Names of all fields of a record or of a list element. */
const declaredNames: readonly string[] = [
  ...Object.keys(scalarTypes),
  ...Object.keys(listTypes),
  ...Object.values(listTypes).flatMap((types) => Object.keys(types)),
];

const anyText = fc.string({ unit: "binary", maxLength: 12 });
const values: Readonly<Partial<Record<ColumnType, fc.Arbitrary<unknown>>>> = {
  text: anyText,
  integer: fc.oneof(fc.integer(), fc.maxSafeInteger()).map((n) => n + 0),
  numeric: fc
    .oneof(fc.integer(), fc.double({ noNaN: true, min: -1e15, max: 1e15 }))
    // At most 20 digits after the point; -0 is 0.
    .map((n) => Number(n.toFixed(6)) + 0),
  boolean: fc.boolean(),
  "text[]": fc.array(anyText, { maxLength: 3 }),
  json: fc.dictionary(anyText, fc.jsonValue({ maxDepth: 2 }), { maxKeys: 2 }),
  date: fc
    .date({ min: new Date("1000-01-01"), max: new Date("2999-12-31"), noInvalidDate: true })
    .map((d) => d.toISOString().slice(0, 10)),
};

/** Names outside the interface, including awkward ones. */
const unknownName = fc
  .oneof(fc.constantFrom("__proto__", "constructor", "new_field", "0", ""), fc.string({ maxLength: 8 }))
  .filter((name) => !declaredNames.includes(name));
const unknownFields = fc.oneof(
  { weight: 4, arbitrary: fc.constant<[string, unknown][]>([]) },
  {
    weight: 1,
    arbitrary: fc.uniqueArray(fc.tuple(unknownName, fc.jsonValue({ maxDepth: 2 })), {
      maxLength: 2,
      selector: ([name]) => name,
    }),
  },
);

const nullable = (arbitrary: fc.Arbitrary<unknown>) => fc.option(arbitrary, { nil: null, freq: 4 });

function objectOf(
  types: Types,
  lists: Readonly<Record<string, fc.Arbitrary<unknown>>> = {},
): fc.Arbitrary<Record<string, unknown>> {
  const scalars = Object.entries(types).map(
    ([name, type]) => [name, nullable(values[type] ?? fc.constant(null))] as const,
  );
  const model = { ...Object.fromEntries(scalars), ...lists };
  return fc
    .tuple(fc.record(model, { requiredKeys: [] }), unknownFields)
    .map(([object, unknown]) => Object.fromEntries([...Object.entries(object), ...unknown]));
}

const lists = Object.entries(listTypes).map(
  ([name, types]) => [name, nullable(fc.array(objectOf(types), { maxLength: 4 }))] as const,
);

/** A valid enriched record with any field absent or null, sometimes with unknown fields. */
export const validRecord = objectOf(scalarTypes, Object.fromEntries(lists));

/** Any JSON object; its keys are mostly those of the interface, its values mostly of unexpected types. */
export const hostileRecord: fc.Arbitrary<Record<string, unknown>> = fc
  .array(
    fc.tuple(
      fc.oneof(fc.constantFrom(...declaredNames), fc.string({ maxLength: 5 })),
      fc.oneof(
        fc.jsonValue(),
        fc.array(fc.dictionary(fc.constantFrom(...declaredNames), fc.jsonValue(), { maxKeys: 6 }), {
          maxLength: 4,
        }),
      ),
    ),
    { maxLength: 15 },
  )
  .map((entries) => Object.fromEntries(entries));
