import { describe, expect, it } from "vitest";
import { call, sandboxFor } from "./support.ts";

const SEARCH = "/person-search/v0/search";
const query = "nurses in California or Texas";

/** A search that was made. */
async function made(sandbox: Awaited<ReturnType<typeof sandboxFor>>, body: object) {
  const answer = await call(sandbox, SEARCH, body);
  if (answer.status !== 200) throw new Error(`search answered ${answer.status}: ${answer.text}`);
  return answer;
}

describe("a person search", () => {
  it("returns PIDs, counts and coverage", async () => {
    const sandbox = await sandboxFor();
    const { body } = await made(sandbox, { query: `  ${query.replace(" ", "   ")} `, size: 7 });
    expect(Object.keys(body).join()).toBe(
      "search_id,query,results,total_count,result_count,total_contact_coverage,results_contact_coverage,created_at",
    );
    expect(body["query"]).toBe(query);
    expect(body.results.length).toBe(7);
    expect(body["result_count"]).toBe(7);
    expect(Number(body["total_count"])).toBeGreaterThan(7);
    expect(body["created_at"]).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
    const coverage = { count: expect.any(Number), percent: expect.any(Number) };
    expect(body["total_contact_coverage"]).toEqual({
      personal_email: coverage,
      professional_email: coverage,
      phone: coverage,
      linkedin: coverage,
    });
  });

  it("is stored, and read again exactly as it was", async () => {
    const sandbox = await sandboxFor();
    const first = await made(sandbox, { query, size: 3 });
    const path = `${SEARCH}/${String(first.body["search_id"])}`;
    await call(sandbox, "/_sandbox/clock", { days: 900 });
    expect((await call(sandbox, path)).text).toBe(first.text);
    const headers = { "x-api-key": "org-other" };
    expect((await call(sandbox, path, undefined, { headers })).status).toBe(404);
  });

  it("counts in the usage, and stops at the daily limit", async () => {
    const sandbox = await sandboxFor();
    const headers = { "x-api-key": "org-quiet" };
    const usage = async () =>
      (await call(sandbox, "/person-search/v0/usage?days=1", undefined, { headers })).body;
    const search = (size: number) => call(sandbox, SEARCH, { query: "women", size }, { headers });
    const before = Number((await usage())["current_day_records_delivered"]);
    await call(sandbox, "/_sandbox/daily_limit", { records: before + 150 });
    expect((await search(100)).status).toBe(200);
    const refused = await search(51);
    expect([refused.status, refused.body.code]).toEqual([429, "rate_limit_reached"]);
    expect((await search(50)).status).toBe(200);
    expect(await usage()).toMatchObject({
      daily_record_limit: before + 150,
      current_day_records_delivered: before + 150,
      current_day_remaining: 0,
    });
  });
});
