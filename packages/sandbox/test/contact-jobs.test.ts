import { describe, expect, it } from "vitest";
import type { Sandbox } from "../src/start-sandbox.ts";
import { call, callsOf, sandboxFor } from "./support.ts";

const JOBS = "/person-search/v0/contact-jobs";

/** A contact job for nurses that ends at once, and its id. */
async function jobIn(sandbox: Sandbox, more: object = {}): Promise<string> {
  const body = { job_type: "contact_prospect", titles: ["nurse"], size: 250, state_ms: 0, ...more };
  return String((await call(sandbox, "/_sandbox/contact_jobs", body)).body["job_id"]);
}
const { poll, unlock, read } = callsOf(JOBS);

describe("a contact job", () => {
  it("is queued, runs and is completed", async () => {
    const sandbox = await sandboxFor();
    const id = await jobIn(sandbox, { states: ["queued", "running", "retrying"], state_ms: null });
    const bodies = [await poll(sandbox, id), await poll(sandbox, id), await poll(sandbox, id)].map(
      ({ body }) => body,
    );
    expect(bodies.map((body) => body["status"])).toEqual(["running", "retrying", "completed"]);
    expect(bodies[0]).toMatchObject({ result_count: null, total_matched: null, completed_at: null });
    expect(bodies[2]).toEqual({
      job_id: id,
      job_type: "contact_prospect",
      status: "completed",
      created_at: expect.stringMatching(/\+00:00$/),
      result_count: 250,
      total_matched: expect.any(Number),
      results_unlocked: false,
      error_code: null,
      message: null,
      started_at: expect.stringMatching(/\+00:00$/),
      completed_at: expect.stringMatching(/\+00:00$/),
      updated_at: expect.stringMatching(/\+00:00$/),
    });
    expect(Number(bodies[2]?.["total_matched"])).toBeGreaterThan(250);
  });

  it("that failed says why, and can't be unlocked", async () => {
    const sandbox = await sandboxFor();
    const id = await jobIn(sandbox, { failure: "no_companies_matched" });
    expect((await poll(sandbox, id)).body).toMatchObject({
      status: "failed",
      error_code: "no_companies_matched",
      message: "The job failed.",
      result_count: null,
    });
    expect((await unlock(sandbox, id)).status).toBe(409);
  });

  it("has results with titles, codes or companies, and a jacket", async () => {
    const sandbox = await sandboxFor();
    const prospect = await jobIn(sandbox, { naics_codes: ["622110"] });
    const { body } = await unlock(sandbox, prospect, "?limit=1");
    expect(body.results).toEqual([
      {
        service_pid: expect.stringMatching(/^p-/),
        matched_job_title: "nurse",
        current_job_title: expect.stringMatching(/Nurs/),
        matched_naics_code: "622110",
        jacket: expect.objectContaining({ full_name: expect.any(String) }),
      },
    ]);
    const append = await jobIn(sandbox, { job_type: "contact_append" });
    const [first] = (await unlock(sandbox, append, "?limit=1")).body.results;
    expect(first?.["matched_company"]).toMatchObject({
      name: expect.any(String),
      domain: expect.any(String),
    });
    expect(first).not.toHaveProperty("matched_naics_code");
  });
});

describe("charging by unlock", () => {
  it("covers the whole job once, and pages are free", async () => {
    const sandbox = await sandboxFor();
    const id = await jobIn(sandbox);
    const first = await unlock(sandbox, id, "?limit=100");
    expect(first.body).toMatchObject({
      total: 250,
      returned: 100,
      limit: 100,
      offset: 0,
      billable_count: 250,
    });
    await call(sandbox, "/_sandbox/capacity", { records: 0 });
    expect((await unlock(sandbox, id)).body["billable_count"]).toBe(250);
    const last = await read(sandbox, id, "?offset=200");
    expect(last.body).toMatchObject({ returned: 50, billable_count: 250 });
  });
});

describe("charging by page", () => {
  it("counts the new records of each page, and none twice", async () => {
    const sandbox = await sandboxFor();
    const id = await jobIn(sandbox, { billing: "page" });
    const counts = [
      await unlock(sandbox, id, "?limit=100"),
      await read(sandbox, id, "?limit=100&offset=50"),
      await read(sandbox, id, "?limit=100&offset=0"),
      await read(sandbox, id, "?limit=100&offset=150"),
    ].map(({ body }) => body["billable_count"]);
    expect(counts).toEqual([100, 50, 0, 100]);
  });

  it("ends with 402 in the middle, without records, and goes on with new capacity", async () => {
    const sandbox = await sandboxFor();
    const id = await jobIn(sandbox, { billing: "page" });
    await call(sandbox, "/_sandbox/capacity", { records: 150 });
    expect((await unlock(sandbox, id)).status).toBe(200);
    const refused = await read(sandbox, id, "?offset=100");
    expect([refused.status, refused.body.code, refused.body.results]).toEqual([
      402,
      "insufficient_record_capacity",
      undefined,
    ]);
    await call(sandbox, "/_sandbox/capacity", { records: 100 });
    expect((await read(sandbox, id, "?offset=100")).body["billable_count"]).toBe(100);
  });
});
