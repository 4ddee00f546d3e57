import { describe, expect, it } from "vitest";
import * as pairing from "../../src/extract/take-answer.ts";
import * as fc from "../support/fast-check.ts";

type Keyed = { readonly [field: string]: unknown } | string | null;

function keyOf(value: unknown): string | null {
  if (typeof value === "number") return String(value);
  return typeof value === "string" && value !== "" ? value : null;
}

/** Pairs parsed results and returns the results themselves. */
function pairBy(
  field: string,
  pair: (sent: readonly string[], results: readonly pairing.KeyedResult[]) => pairing.Pairing,
) {
  return (sent: readonly string[], results: readonly Keyed[]) => {
    const keyed = results.map((r) =>
      typeof r === "object" && r !== null ? { key: keyOf(r[field]) } : undefined,
    );
    return pair(sent, keyed).map((index) => results[index ?? -1]);
  };
}

const pairByRecordId = pairBy("record_id", pairing.pairByRecordId);
const pairByAddress = pairBy("email_address", pairing.pairByAddress);

const result = (record_id: unknown, n = 0) => ({ record_id, n });

const mail = (email_address: unknown, n = 0) => ({ email_address, n });

describe("by record_id", () => {
  it("finds shuffled results", () => {
    expect(pairByRecordId(["a", "b"], [result("b"), result("a")])).toEqual([result("a"), result("b")]);
  });
  it("accepts numbers as text", () => {
    expect(pairByRecordId(["1", "2"], [result(2), result(1)])).toEqual([result(1), result(2)]);
  });
  it("takes the first of equal ids and ignores unknown ones", () => {
    expect(pairByRecordId(["a", "b"], [result("x"), result("b", 1), result("b", 2), result("a")])).toEqual([
      result("a"),
      result("b", 1),
    ]);
  });
  it("has no result for records that were left out", () => {
    expect(pairByRecordId(["a", "b", "c"], [result("c"), result("a")])).toEqual([
      result("a"),
      undefined,
      result("c"),
    ]);
    expect(pairByRecordId(["a"], [])).toEqual([undefined]);
  });
  it("goes by position where no result has an id and none is missing", () => {
    expect(pairByRecordId(["a", "b"], [{ n: 1 }, { n: 2 }])).toEqual([{ n: 1 }, { n: 2 }]);
    expect(pairByRecordId(["a", "b"], [{ n: 1 }])).toEqual([undefined, undefined]);
  });
  it("never goes by position beside ids, known or foreign, or when results are too few or too many", () => {
    expect(pairByRecordId(["a", "b", "c"], [result("a"), result(null), result("c")])).toEqual([
      result("a"),
      undefined,
      result("c"),
    ]);
    expect(pairByRecordId(["a", "b"], [result("x"), { n: 2 }])).toEqual([undefined, undefined]);
    expect(pairByRecordId(["a", "b"], [{ n: 1 }, { n: 2 }, { n: 3 }])).toEqual([undefined, undefined]);
  });
  it("gives no result of another request to a record", () => {
    expect(pairByRecordId(["a", "b"], [result("x"), result("y")])).toEqual([undefined, undefined]);
  });
  it("ignores results that aren't objects", () => {
    expect(pairByRecordId(["a", "b"], [null, "b"])).toEqual([undefined, undefined]);
  });
});

describe("by position and address", () => {
  it("takes the result at the same position when its address is the one sent", () => {
    expect(pairByAddress(["a@x", "A@x"], [mail("a@x", 1), mail("A@x", 2)])).toEqual([
      mail("a@x", 1),
      mail("A@x", 2),
    ]);
  });
  it("finds shuffled results by address", () => {
    expect(pairByAddress(["a@x", "b@x"], [mail("b@x"), mail("a@x")])).toEqual([mail("a@x"), mail("b@x")]);
  });
  it("compares without case only where no exact address is left", () => {
    expect(pairByAddress(["Ann@X", "ann@x"], [mail("ann@x", 1), mail("ann@x", 2)])).toEqual([
      mail("ann@x", 1),
      mail("ann@x", 2),
    ]);
    expect(pairByAddress([" Ann@X "], [mail("ann@x")])).toEqual([mail("ann@x")]);
  });
  it("goes by position when the address is of the wrong type", () => {
    expect(pairByAddress(["a@x", "b@x"], [mail("a@x"), mail(7n)])).toEqual([mail("a@x"), mail(7n)]);
  });
  it("does not give an address the result of another", () => {
    expect(pairByAddress(["a@x"], [mail("b@x")])).toEqual([undefined]);
  });
});

it("a record gets its own result or none, in any order, with any repetition and gaps", () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.string({ minLength: 1 }), { maxLength: 30 }),
      fc.infiniteStream(fc.nat()),
      (ids, rolls) => {
        const roll = () => rolls.next().value ?? 0;
        const answered = ids.flatMap((id) => Array.from({ length: roll() % 3 }, () => result(id)));
        const shuffled = answered.toSorted(() => (roll() % 2) - 0.5);
        const paired = pairByRecordId(ids, shuffled);
        expect(paired).toHaveLength(ids.length);
        for (const [index, id] of ids.entries()) {
          const isAnswered = shuffled.some((r) => r.record_id === id);
          expect(paired[index]).toEqual(isAnswered ? result(id) : undefined);
        }
      },
    ),
  );
});
