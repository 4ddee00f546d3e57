import { describe, expect, it } from "vitest";
import type { Sandbox } from "../src/start-sandbox.ts";
import { type Answered, call, callsOf, sandboxFor } from "./support.ts";

const JOBS = "/person-search/v0/search-jobs";
const query = "nurses in California or Texas";

/** A sandbox whose searches move on by one state with each poll. */
async function sandboxWith(plan: object = {}): Promise<Sandbox> {
  const sandbox = await sandboxFor();
  await call(sandbox, "/_sandbox/search_plan", { state_ms: null, ...plan });
  return sandbox;
}
async function submit(sandbox: Sandbox, wanted = query): Promise<string> {
  return String((await call(sandbox, JOBS, { query: wanted })).body["segment_id"]);
}
const { poll, unlock, read } = callsOf(JOBS);

/** Polls until the end, and returns every status. */
async function pollToEnd(sandbox: Sandbox, id: string): Promise<readonly Answered["body"][]> {
  const bodies: Answered["body"][] = [];
  for (let i = 0; i < 20; i++) {
    const { body } = await poll(sandbox, id);
    bodies.push(body);
    if (["completed", "failed", "cancelled"].includes(String(body["status"]))) return bodies;
  }
  throw new Error("The search did not end.");
}
async function lastOf(sandbox: Sandbox, id: string): Promise<Answered["body"]> {
  return (await pollToEnd(sandbox, id)).at(-1) ?? { results: [] };
}

/** PIDs of every page. */
async function readAll(sandbox: Sandbox, id: string, limit = 100): Promise<readonly string[]> {
  const pids: string[] = [];
  for (;;) {
    const { body } = await read(sandbox, id, `?limit=${limit}&offset=${pids.length}`);
    pids.push(...(body["pids"] as readonly string[]));
    if (pids.length >= Number(body["total"])) return pids;
  }
}

describe("the states of a search", () => {
  it("begin with an id, and no PIDs", async () => {
    const { status, body } = await call(await sandboxWith(), JOBS, { query });
    const id = expect.stringMatching(/^[0-9a-f-]{36}$/);
    expect([status, body]).toEqual([
      202,
      { segment_id: id, status: "created", created_at: expect.stringMatching(/Z$/) },
    ]);
  });

  it("follow each other until it is completed", async () => {
    const sandbox = await sandboxWith();
    const bodies = await pollToEnd(sandbox, await submit(sandbox));
    expect(
      bodies.map((body) => [
        body["status"],
        body["total_count"] === null,
        body["full_criteria_tree"] === null,
      ]),
    ).toEqual([
      ["initiated", true, true],
      ["parsing_search", true, true],
      ["building_query", true, false],
      ["querying", true, false],
      ["completed", false, false],
    ]);
    expect(bodies.every((body) => body["error"] === null && body["results_unlocked"] === false)).toBe(true);
  });

  it("pass by time, so that a poll skips some", async () => {
    const sandbox = await sandboxFor();
    await call(sandbox, "/_sandbox/search_plan", { state_ms: 3_600_000 });
    const id = await submit(sandbox);
    expect((await poll(sandbox, id)).body["status"]).toBe("created");
    await call(sandbox, "/_sandbox/clock", { days: 4.5 / 24 });
    expect((await poll(sandbox, id)).body["status"]).toBe("querying");
    await call(sandbox, "/_sandbox/clock", { days: 1 });
    expect((await poll(sandbox, id)).body["status"]).toBe("completed");
  });

  it("may be ones that the interface doesn't name; the count is known before the statistics", async () => {
    const sandbox = await sandboxWith({ states: ["created", "warming_up", "computing_stats", "sorting"] });
    const bodies = await pollToEnd(sandbox, await submit(sandbox));
    expect(
      bodies.map((body) => [body["status"], body["total_count"] === null, body["stats"] === null]),
    ).toEqual([
      ["warming_up", true, true],
      ["computing_stats", false, true],
      ["sorting", false, true],
      ["completed", false, false],
    ]);
  });

  it("end with a failure that keeps the count", async () => {
    const states = ["created", "computing_stats", "materializing"];
    const sandbox = await sandboxWith({ states, outcome: "search_worker_lost" });
    const id = await submit(sandbox);
    const last = await lastOf(sandbox, id);
    expect(last).toMatchObject({
      status: "failed",
      error: { code: "search_worker_lost", message: expect.any(String), retryable: false },
      stats: null,
      billable_count: null,
    });
    expect(Number(last["total_count"])).toBeGreaterThan(0);
  });

  it("end with the criteria that can't be resolved, and a suggestion", async () => {
    const sandbox = await sandboxWith();
    expect(await lastOf(sandbox, await submit(sandbox, "left-handed nurses in Ohio"))).toMatchObject({
      status: "failed",
      error: { code: "search_criteria_failed" },
      error_criteria: [{ criteria: "left-handed" }],
      suggested_search: "nurses in Ohio",
      full_criteria_tree: null,
      total_count: null,
    });
    expect(await lastOf(sandbox, await submit(sandbox, "jugglers"))).toMatchObject({
      error_criteria: [{ criteria: "jugglers" }],
      suggested_search: null,
    });
  });
});

interface Bucket {
  readonly label: string;
  readonly count: number;
  readonly percentage: number;
}
interface Stats {
  readonly coverage: Readonly<Record<string, { readonly count: number; readonly percentage: number }>>;
  readonly distributions: Readonly<Record<string, readonly Bucket[]>>;
}

describe("the statistics of a search", () => {
  it("agree with its count, with each other and with narrower searches", async () => {
    const sandbox = await sandboxWith();
    const last = await lastOf(sandbox, await submit(sandbox, "women in California, Texas, New York"));
    const total = Number(last["total_count"]);
    const { coverage, distributions } = last["stats"] as Stats;
    expect(Object.keys(coverage).join()).toBe("email,phone,address");
    expect(Object.keys(distributions).join()).toBe(
      "age,gender,education_level,job_title,home_ownership,income,wealth,current_address_state",
    );
    expect(distributions["gender"]).toEqual([{ label: "Female", count: total, percentage: 100 }]);
    expect(coverage["address"]).toEqual({ count: total, percentage: 100 });
    const sum = (name: string) => distributions[name]?.reduce((all, { count }) => all + count, 0);
    for (const name of ["education_level", "home_ownership", "income", "wealth", "current_address_state"]) {
      expect([name, sum(name)]).toEqual([name, total]);
    }
    for (const { count, percentage } of Object.values(distributions).flat()) {
      expect(percentage).toBe(Math.round((count / total) * 10_000) / 100);
    }
    const narrower = await lastOf(
      sandbox,
      await submit(sandbox, "women in California, Texas, New York, 35 to 44"),
    );
    expect(distributions["age"]?.find(({ label }) => label === "35-44")?.count).toBe(narrower["total_count"]);
    expect(distributions["current_address_state"]?.map(({ label }) => label).toSorted()).toEqual([
      "CA",
      "NY",
      "TX",
    ]);
  });
});

describe("unlocking a search", () => {
  it("charges once, and returns a page", async () => {
    const sandbox = await sandboxWith();
    const id = await submit(sandbox);
    const total = Number((await lastOf(sandbox, id))["total_count"]);
    expect((await read(sandbox, id)).status).toBe(409);
    const first = await unlock(sandbox, id, "?limit=2&offset=1");
    expect(first.body).toEqual({
      segment_id: id,
      pids: [expect.stringMatching(/^p-/), expect.stringMatching(/^p-/)],
      total,
      returned: 2,
      limit: 2,
      offset: 1,
      billable_count: total,
      unlocked_at: expect.stringMatching(/Z$/),
    });
    const again = await unlock(sandbox, id);
    expect([again.status, again.body["billable_count"]]).toEqual([200, total]);
    expect((await poll(sandbox, id)).body).toMatchObject({ results_unlocked: true, billable_count: total });
    const { body: ledger } = await call(sandbox, "/_sandbox/ledger");
    expect(ledger["endpoints"]).toMatchObject({ [`POST ${JOBS}/{segment_id}/results`]: { billed: total } });
  });

  it("does not charge for people who were unlocked in the same year", async () => {
    const sandbox = await sandboxWith();
    const one = await submit(sandbox, "nurses in California");
    const both = await submit(sandbox, query);
    const [few, all] = [await lastOf(sandbox, one), await lastOf(sandbox, both)].map((last) =>
      Number(last["total_count"]),
    );
    await unlock(sandbox, one);
    expect((await unlock(sandbox, both)).body["billable_count"]).toBe((all ?? 0) - (few ?? 0));
    await call(sandbox, "/_sandbox/clock", { days: 366 });
    const later = await submit(sandbox, "nurses in California");
    const last = await lastOf(sandbox, later);
    expect((await unlock(sandbox, later)).body["billable_count"]).toBe(last["total_count"]);
  });

  it("without enough credits returns and charges nothing", async () => {
    const sandbox = await sandboxWith();
    const id = await submit(sandbox);
    const total = Number((await lastOf(sandbox, id))["total_count"]);
    await call(sandbox, "/_sandbox/capacity", { records: total - 1, code: "insufficient_credits" });
    const refused = await unlock(sandbox, id);
    expect([refused.status, refused.body.code, refused.body["pids"]]).toEqual([
      402,
      "insufficient_credits",
      undefined,
    ]);
    expect((await poll(sandbox, id)).body["results_unlocked"]).toBe(false);
    await call(sandbox, "/_sandbox/capacity", { records: total });
    expect((await unlock(sandbox, id)).status).toBe(200);
    expect((await call(sandbox, "/_sandbox")).body["capacity"]).toMatchObject({ recordsLeft: 0 });
  });
});

describe("pages of results", () => {
  it("hold every member once, whatever their size", async () => {
    const sandbox = await sandboxWith();
    const id = await submit(sandbox);
    const total = Number((await lastOf(sandbox, id))["total_count"]);
    await unlock(sandbox, id);
    const pids = await readAll(sandbox, id);
    expect(new Set(pids).size).toBe(total);
    expect(await readAll(sandbox, id, 7)).toEqual(pids);
    expect((await read(sandbox, id, `?offset=${total}`)).body).toMatchObject({
      pids: [],
      returned: 0,
      total,
    });
  });

  it("change while they are read, if a control says so", async () => {
    const sandbox = await sandboxWith({ state_ms: 0 });
    const id = await submit(sandbox);
    await unlock(sandbox, id);
    const pids = await readAll(sandbox, id);
    await call(sandbox, "/_sandbox/search_members", { segment_id: id, service_pids: pids.slice(1) });
    expect(await readAll(sandbox, id)).toEqual(pids.slice(1));
  });

  it("are also the members of a segment, once they are unlocked", async () => {
    const sandbox = await sandboxWith({ state_ms: 0 });
    const id = await submit(sandbox);
    const members = () => call(sandbox, `/v2/segments/members?segment_id=${id}`);
    expect((await members()).status).toBe(404);
    await unlock(sandbox, id);
    const pids = await readAll(sandbox, id);
    const listed = (await members()).body.results as unknown as {
      readonly total_count: number;
      readonly items: readonly { readonly service_pid: string }[];
    };
    expect(listed.total_count).toBe(pids.length);
    expect(listed.items.map((item) => item.service_pid).toSorted()).toEqual([...pids].toSorted());
  });
});
