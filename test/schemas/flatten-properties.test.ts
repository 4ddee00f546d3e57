import { expect, test } from "vitest";
import { DriftLog } from "../../src/schemas/convert.ts";
import { enrichEndpoint } from "../../src/schemas/enrich.ts";
import { isJsonObject, type JsonObject } from "../../src/schemas/flatten.ts";
import { hostileRecord, listTypes, scalarTypes, validRecord } from "./arbitrary-record.ts";
import { type NamedResult, nameResult } from "./named-rows.ts";
import { canonicalJson, normalizeRecord, rebuildRecord } from "./rebuild-record.ts";
import * as fc from "../support/fast-check.ts";

/** A record as received: parsed from JSON text. */
function fromWire(record: object): JsonObject {
  const parsed: unknown = JSON.parse(JSON.stringify(record));
  if (!isJsonObject(parsed)) throw new Error("no object");
  return parsed;
}

function flatten(record: JsonObject, drift = new DriftLog("POST /v2/enrich")): NamedResult {
  return nameResult(enrichEndpoint, record, "p-1", drift);
}

test("a record rebuilt from its rows is the record that was answered", () => {
  fc.assert(
    fc.property(validRecord, (arbitrary) => {
      const record = fromWire(arbitrary);
      const rebuilt = rebuildRecord(flatten(record));
      expect(canonicalJson(rebuilt)).toBe(canonicalJson(normalizeRecord(record)));
    }),
    { numRuns: 200 },
  );
});

test("a valid record has drift only where it has unknown fields", () => {
  fc.assert(
    fc.property(validRecord, (arbitrary) => {
      const record = fromWire(arbitrary);
      const drift = new DriftLog("POST /v2/enrich");
      const flat = flatten(record, drift);
      expect(drift.entries().every((entry) => entry.kind === "unknown_field")).toBe(true);
      const extras = [
        flat.extra,
        ...Object.values(flat.lists).flatMap((rows) => rows?.map((r) => r["_extra"]) ?? []),
      ];
      expect(drift.entries().length > 0).toBe(extras.some((extra) => extra !== null));
    }),
    { numRuns: 100 },
  );
});

test("flattening takes any JSON: every cell is text or null, every row as wide as its table", () => {
  fc.assert(
    fc.property(hostileRecord, (arbitrary) => {
      const record = fromWire(arbitrary);
      // nameResult throws on a row of another width.
      const flat = flatten(record);
      const rows = [flat.fields, ...Object.values(flat.lists).flatMap((list) => list ?? [])];
      for (const row of rows) {
        for (const cell of Object.values(row)) expect(cell === null || typeof cell === "string").toBe(true);
      }
    }),
    { numRuns: 500 },
  );
});

test("positions are the indexes of the source's objects, in the source's order, each one once", () => {
  fc.assert(
    fc.property(fc.oneof(hostileRecord, validRecord), (arbitrary) => {
      const record = fromWire(arbitrary);
      const flat = flatten(record);
      for (const [name, rows] of Object.entries(flat.lists)) {
        const source = record[name];
        const elements: readonly unknown[] = Array.isArray(source) ? source : [];
        const expected = elements.flatMap((element, i) => (isJsonObject(element) ? [String(i)] : []));
        expect((rows ?? []).map((row) => row["position"])).toEqual(expected);
      }
    }),
    { numRuns: 200 },
  );
});

const unlikeAnyField = fc.constantFrom<unknown>({ odd: true }, ["odd"], [[1]], {});

test("one scalar of an unexpected type costs that field alone", () => {
  fc.assert(
    fc.property(
      validRecord,
      fc.constantFrom(...Object.keys(scalarTypes).filter((name) => scalarTypes[name] !== "json")),
      unlikeAnyField,
      (arbitrary, name, oddValue) => {
        const record = fromWire(arbitrary);
        const before = flatten({ ...record, [name]: null });
        const drift = new DriftLog("POST /v2/enrich");
        const after = flatten({ ...record, [name]: oddValue }, drift);
        expect({ ...after, extra: null }).toEqual({ ...before, extra: null });
        expect(JSON.parse(after.extra ?? "{}")).toEqual({
          ...JSON.parse(before.extra ?? "{}"),
          [name]: oddValue,
        });
        expect(drift.entries().filter((e) => e.kind === "unexpected_type")).toEqual([
          {
            endpoint: "POST /v2/enrich",
            path: name,
            kind: "unexpected_type",
            observedType: Array.isArray(oddValue) ? "array" : "object",
            occurrences: 1,
          },
        ]);
      },
    ),
    { numRuns: 100 },
  );
});

/** Fields of list elements with one value; a list of texts keeps its valid items. */
const listField = fc.constantFrom(
  ...Object.entries(listTypes).flatMap(([list, types]) =>
    Object.entries(types).flatMap(([field, type]) => (type === "text[]" ? [] : [{ list, field }])),
  ),
);

test("one field of an unexpected type in one list element costs that cell alone", () => {
  fc.assert(
    fc.property(
      validRecord,
      listField,
      fc.nat(),
      unlikeAnyField,
      (arbitrary, { list, field }, seed, oddValue) => {
        const record = fromWire(arbitrary);
        const source = record[list];
        const elements: readonly unknown[] = Array.isArray(source) && source.length > 0 ? source : [{}];
        const at = seed % elements.length;
        const put = (value: unknown) => ({
          ...record,
          [list]: elements.map((element, i) =>
            i === at && isJsonObject(element) ? { ...element, [field]: value } : element,
          ),
        });
        const drift = new DriftLog("POST /v2/enrich");
        const [before, after] = [flatten(put(null)), flatten(put(oddValue), drift)];
        const row = after.lists[list]?.[at];
        expect(JSON.parse(row?.["_extra"] ?? "{}")).toHaveProperty([field], oddValue);
        const restored = { ...row, _extra: before.lists[list]?.[at]?.["_extra"] ?? null };
        const lists = { ...after.lists, [list]: after.lists[list]?.map((r, i) => (i === at ? restored : r)) };
        expect({ ...after, lists }).toEqual(before);
        expect(drift.entries().filter((e) => e.kind === "unexpected_type")).toMatchObject([
          { path: `${list}[].${field}`, occurrences: 1 },
        ]);
      },
    ),
    { numRuns: 100 },
  );
});
