import { describe, expect, test } from "vitest";
import { audienceSearchEndpoints } from "../../src/schemas/audience-search.ts";
import { DriftLog } from "../../src/schemas/convert.ts";
import { readPages, type ResultPage, resultsCall } from "../../src/extract/pages.ts";
import * as fc from "../support/fast-check.ts";

/** Items 0 to `total` - 1 in pages of at most `most`. */
function serve(total: number, most = 100) {
  const calls: number[] = [];
  let inFlight = 0;
  const seen = { calls, mostInFlight: 0 };
  const read = async (offset: number): Promise<ResultPage> => {
    calls.push(offset);
    inFlight += 1;
    seen.mostInFlight = Math.max(seen.mostInFlight, inFlight);
    await new Promise((resolve) => setTimeout(resolve, 1));
    inFlight -= 1;
    const items = Array.from(
      { length: Math.max(0, Math.min(most, 100, total - offset)) },
      (_, i) => offset + i,
    );
    return { items, offset, returned: items.length, total, billableCount: null, unlockedAt: null };
  };
  return { read, seen };
}

async function itemsOf(pages: AsyncIterable<ResultPage>): Promise<readonly unknown[]> {
  const items: unknown[] = [];
  for await (const page of pages) items.push(...page.items);
  return items;
}
const upTo = (from: number, total: number) => Array.from({ length: total - from }, (_, i) => from + i);

async function readNothing(offset: number): Promise<ResultPage> {
  await Promise.resolve();
  return { items: [], offset, returned: 0, total: 300, billableCount: null, unlockedAt: null };
}

describe("pages of results", () => {
  test("are read in order, several at once, until offset + returned >= total", async () => {
    const { read, seen } = serve(1000);
    expect(await itemsOf(readPages(read, { from: 0, total: 1000, ahead: 4 }))).toEqual(upTo(0, 1000));
    expect(seen).toEqual({ calls: upTo(0, 10).map((page) => page * 100), mostInFlight: 4 });
  });

  test("cover every item once, wherever they begin, however short they are and however many are read ahead", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 0, max: 900 }),
        fc.nat(900),
        fc.integer({ min: 1, max: 120 }),
        fc.integer({ min: 1, max: 6 }),
        fc.boolean(),
        async (total, at, most, ahead, isKnown) => {
          const from = Math.min(at, total);
          const { read, seen } = serve(total, most);
          const items = await itemsOf(readPages(read, { from, total: isKnown ? total : null, ahead }));
          expect(items).toEqual(upTo(from, total));
          expect(seen.mostInFlight).toBeLessThanOrEqual(ahead);
        },
      ),
      { numRuns: 30 },
    );
  });

  test("of full length are read ahead again after a short one", async () => {
    const { read, seen } = serve(3000);
    const oddly = async (offset: number) => {
      const page = await read(offset);
      return offset === 100 ? { ...page, items: page.items.slice(0, 1), returned: 1 } : page;
    };
    const items = await itemsOf(readPages(oddly, { from: 0, total: 3000, ahead: 4 }));
    expect(items).toEqual(upTo(0, 3000));
    expect(seen.calls.length).toBeLessThan(45);
  });

  test("that don't advance end the reading", async () => {
    await expect(itemsOf(readPages(readNothing, { from: 100, total: 300, ahead: 3 }))).rejects.toMatchObject({
      code: "page_not_advancing",
    });
  });
});

test.each([
  ['{"pids":["p-1"],"total":3,"returned":1,"offset":100,"billable_count":2,"next":1}', 1],
  ['{"pids":null,"total":0,"returned":0,"offset":100}', 0],
  ['{"pids":[],"total":"0"}', 0],
  ['{"total":3}', null],
  ['{"pids":["p-1"]}', null],
  ['{"pids":["p-1"],"total":3,"offset":0}', null],
  ['{"pids":["p-1"],"total":3,"returned":2}', null],
  ['{"pids":{},"total":3}', null],
  ["[]", null],
])("%s is read as a page, or as no answer", (body, items) => {
  const target = { id: "x", list: "pids", offset: 100 };
  const { read } = resultsCall(audienceSearchEndpoints.results, target);
  const drift = new DriftLog("");
  expect(read(Buffer.from(body), drift)?.items.length ?? null).toBe(items);
  expect(drift.entries().map(({ path }) => path)).toEqual(body.includes("next") ? ["response.next"] : []);
});
