import { describe, expect, it } from "vitest";
import { ask, enrichTotals, outcomeOf, records, sandboxWith } from "./fault-support.ts";
import { enrich } from "./support.ts";

const ids = records.map((record) => record.record_id);
const idsWith = async (fault: string) =>
  (await enrich(await sandboxWith(fault), records)).map((result) => result.record_id);

describe("broken connections", () => {
  it("before the request is carried out bill nothing", async () => {
    const sandbox = await sandboxWith("cut_before#1");
    expect(await outcomeOf(sandbox)).toBe("UND_ERR_SOCKET");
    expect(await enrichTotals(sandbox)).toMatchObject({ requests: 1, billed: 0, faults: { cut_before: 1 } });
    expect(await outcomeOf(sandbox)).toBe(200);
  });

  it.each(["reply_lost", "cut_body"])("after it was carried out bill it: %s", async (fault) => {
    const sandbox = await sandboxWith(`${fault}#1`);
    expect(["ECONNRESET", "UND_ERR_SOCKET"]).toContain(await outcomeOf(sandbox));
    expect(await enrichTotals(sandbox)).toMatchObject({ billed: 40, faults: { [fault]: 1 } });
    expect(await outcomeOf(sandbox)).toBe(200);
    expect(await enrichTotals(sandbox)).toMatchObject({ billed: 80 });
  });

  it("truncated JSON is complete HTTP", async () => {
    const sandbox = await sandboxWith("truncated_json");
    const answer = await ask(sandbox);
    expect(answer.status).toBe(200);
    expect(Number(answer.headers["content-length"])).toBe(Buffer.byteLength(answer.text));
    expect(() => JSON.parse(answer.text)).toThrow(SyntaxError);
    expect(answer.text.startsWith('{"api_request_id":')).toBe(true);
    expect(await enrichTotals(sandbox)).toMatchObject({ billed: 40 });
  });

  it("slow answers and slow bodies take their time", async () => {
    for (const faults of ["slow=300", "slow_body=300"]) {
      const startedMs = performance.now();
      expect((await ask(await sandboxWith(faults))).status).toBe(200);
      expect(performance.now() - startedMs).toBeGreaterThan(290);
    }
  });
});

describe("results", () => {
  it("shuffled are the same results in another order", async () => {
    const results = await enrich(await sandboxWith("shuffled"), records);
    expect(results.map((result) => result.record_id)).not.toEqual(ids);
    expect(
      results
        .map((result) => Number(result.record_id))
        .toSorted((a, b) => a - b)
        .map(String),
    ).toEqual(ids);
  });

  it("duplicated, missing and foreign ones are counted wrong", async () => {
    const duplicated = await idsWith("duplicated");
    expect(duplicated.length).toBeGreaterThan(40);
    expect([...new Set(duplicated)]).toEqual(ids);
    const missing = await idsWith("missing");
    expect(missing.length).toBeLessThan(40);
    expect(ids).toEqual(expect.arrayContaining(missing));
    expect(await idsWith("foreign")).toEqual([...ids, "sandbox-foreign"]);
  });
});
