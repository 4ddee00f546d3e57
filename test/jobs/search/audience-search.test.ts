import { describe, expect, onTestFinished, test } from "vitest";
import { openHttpClient } from "../../../src/extract/http-client.ts";
import {
  audiencesOf,
  budgetUse,
  callsOf,
  membersOfService,
  NURSES,
  runAudiences,
  searchesOfService,
  startAudience,
  storedMembers,
  SUBMIT,
  UNLOCK,
  unlocksInLedger,
} from "./audience-world.ts";
import { eraseByPid } from "./erase-by-pid.ts";
import { seenDuring, type World } from "../world.ts";

const LARGE = "women in Texas";

describe("an audience search", () => {
  test("is submitted once, waited for and stored with its demographics, and nothing is unlocked", async () => {
    const world = await startAudience();
    expect(await runAudiences(world)).toMatchObject({
      status: "succeeded",
      records_read: 1,
      records_sent: 1,
    });
    const [search] = await searchesOfService(world);
    expect(
      await world.rows(
        `SELECT segment_id, search_name, query, status, materialization_extent AS extent, total_count = estimated_billable_count AS is_exact,
          total_count > 0 AS has_people, billable_count, results_unlocked, error_code FROM person_data.audience_search`,
      ),
    ).toEqual([
      {
        segment_id: search?.segmentId,
        search_name: "nurses",
        query: NURSES,
        status: "completed",
        extent: "full",
        is_exact: "t",
        has_people: "t",
        billable_count: null,
        results_unlocked: "f",
        error_code: null,
      },
    ]);
    expect(
      await world.rows(
        `SELECT (SELECT count(*) FROM person_data.audience_search_coverage) AS channels,
          (SELECT count(DISTINCT distribution) FROM person_data.audience_search_distribution) AS distributions`,
      ),
    ).toEqual([{ channels: "3", distributions: "8" }]);
    expect(await callsOf(world, UNLOCK)).toEqual({});
    expect(await runAudiences(world)).toMatchObject({
      status: "succeeded",
      records_unchanged: 1,
      requests: 0,
    });
    expect(await callsOf(world, SUBMIT)).toEqual({ 202: 1 });
  });

  test("goes on in any state, known or not, until its deadline, and the next run resumes it", async () => {
    const world = await startAudience("never", {
      config: audiencesOf(`nurses: { query: ${NURSES} }`, ", deadline: 20s"),
    });
    await world.control("/search_plan", {
      states: [
        "created",
        "querying",
        "previewed",
        "reticulating_splines",
        ...Array<string>(8).fill("counting"),
      ],
      state_ms: null,
    });
    expect(await runAudiences(world)).toMatchObject({
      status: "limited",
      limited_by: "deadline",
      records_remaining: 1,
      records_sent: 0,
    });
    await world.control("/search_plan", {});
    for (let runs = 0; (await runAudiences(world)).status === "limited"; runs++)
      expect(runs).toBeLessThan(20);
    expect(await world.value("SELECT status FROM person_data.audience_search")).toBe("completed");
    expect(await callsOf(world, SUBMIT)).toEqual({ 202: 1 });
  });

  test("is polled through 503", async () => {
    const world = await startAudience("never", {
      faults: [
        {
          fault: "503",
          rate: 1,
          endpoint: "GET /person-search/v0/search-jobs/{segment_id}",
          from: 1,
          to: 12,
        },
      ],
    });
    expect(await runAudiences(world)).toMatchObject({ status: "succeeded" });
  });

  test("that fails is stored with its cause and fails each run, without another submit, until its text changes", async () => {
    const world = await startAudience("never", {
      config: audiencesOf('odd: { query: "nurses who like gardening in Ohio" }'),
    });
    const failed = {
      status: "failed",
      error: {
        code: "search_failed",
        message: expect.stringMatching(
          /^audiences: the audience odd failed \(search_criteria_failed\)\. The table audience_search has its error_message, error_criteria and suggested_search\. Revise its query, or submit it again: `checkpoint reset audiences --stream [0-9a-f]{16}`\.$/,
        ),
      },
    };
    expect(await runAudiences(world)).toMatchObject(failed);
    expect(
      await world.rows(
        `SELECT status, error_code, error_message IS NOT NULL AS has_message, json_array_length(error_criteria::json) AS criteria,
          suggested_search FROM person_data.audience_search`,
      ),
    ).toEqual([
      {
        status: "failed",
        error_code: "search_criteria_failed",
        has_message: "t",
        criteria: "1",
        suggested_search: expect.stringContaining("nurses"),
      },
    ]);
    expect(await runAudiences(world)).toMatchObject({ ...failed, records_unchanged: 1, requests: 0 });
    world.configure(audiencesOf(`odd: { query: ${NURSES} }`));
    expect(await runAudiences(world)).toMatchObject({ status: "succeeded", records_sent: 1 });
    expect(await callsOf(world, SUBMIT)).toEqual({ 202: 2 });
  });

  test("keeps its count when a later step fails", async () => {
    const world = await startAudience();
    await world.control("/search_plan", {
      states: ["created", "computing_stats"],
      state_ms: null,
      outcome: "search_worker_lost",
    });
    const http = await httpWith(world, async (_call, send) =>
      withBody(await send(), ({ total_count: total, ...body }) =>
        body["status"] === "failed" ? body : { ...body, total_count: total },
      ),
    );
    const report = await world.run({}, { http });
    expect(report.jobs).toMatchObject([{ status: "failed", error: { code: "search_failed" } }]);
    expect(
      await world.rows(
        "SELECT status, error_code, total_count > 0 AS has_count FROM person_data.audience_search",
      ),
    ).toEqual([{ status: "failed", error_code: "search_worker_lost", has_count: "t" }]);
  });

  test("with an organization's key explains that it needs a user's", async () => {
    const world = await startAudience();
    const openClient = (userKey?: string) => {
      const readUserKey = userKey === undefined ? {} : { readUserKey: async () => userKey };
      const http = openHttpClient({
        baseUrl: world.serviceUrl,
        readKey: async () => "organization-only",
        ...readUserKey,
        concurrency: 1,
      });
      onTestFinished(() => http.close());
      return http;
    };
    const report = await world.run({}, { http: openClient() });
    expect(report.jobs[0]).toMatchObject({
      status: "failed",
      error: {
        code: "user_key_required",
        message: expect.stringMatching(
          /^POST \/person-search\/v0\/search-jobs: the service rejected the API key \(401, request \S+\)\. Asynchronous person search requires the key of a user; keys of an organization alone are rejected\. Create one in the service's web application and set service\.user_api_key\.$/,
        ),
      },
    });
    expect(await world.rows("SELECT FROM person_data_ops.checkpoint WHERE job = 'audiences'")).toEqual([]);
    expect((await world.run({}, { http: openClient("user-key") })).status).toBe("succeeded");
    // The refused submit is not one without an answer.
    expect(world.notes.join(" ")).not.toContain("twice");
  });

  test("is called by its ID as the service writes it", async () => {
    const world = await startAudience("{ max_billable: 500 }");
    const paths: string[] = [];
    const http = await httpWith(world, async (call, send) => {
      paths.push(call.path);
      const reply = await send();
      if (call.method !== "POST" || !call.path.endsWith("search-jobs")) return reply;
      return withBody(reply, (body) => ({ ...body, segment_id: String(body["segment_id"]).toUpperCase() }));
    });
    await world.run({}, { http });
    const [search] = await searchesOfService(world);
    const id = search?.segmentId.toUpperCase() ?? "";
    expect(await world.value("SELECT segment_id FROM person_data.audience_search")).toBe(id);
    expect(paths).toContain(`/person-search/v0/search-jobs/${id}`);
  });

  test("whose refresh is refused, or not finished, stays as it is until then", async () => {
    const world = await startAudience("never", {
      config: audiencesOf(`nurses: { query: ${NURSES} }`, ", refresh_after: 1s"),
    });
    await runAudiences(world);
    const before = await world.rows("SELECT cursor FROM person_data_ops.checkpoint WHERE job = 'audiences'");
    const http = await httpWith(world, async (call, send) =>
      call.method === "POST" ? withStatus(await send(), 422) : send(),
    );
    expect(jobStatus(await world.run({}, { http }))).toBe("failed");
    expect(await world.rows("SELECT cursor FROM person_data_ops.checkpoint WHERE job = 'audiences'")).toEqual(
      before,
    );
    expect(await runAudiences(world)).toMatchObject({ status: "succeeded" });
    expect(world.notes.join(" ")).not.toContain("twice");
    expect(await world.value("SELECT count(*) FROM person_data.audience_search")).toBe("2");
  });

  test("whose submit was lost is submitted once more, which is reported", async () => {
    const world = await startAudience("never", {
      faults: [{ fault: "reply_lost", rate: 1, endpoint: SUBMIT, from: 1, to: 1 }],
    });
    expect(await runAudiences(world)).toMatchObject({ status: "succeeded" });
    expect(await callsOf(world, SUBMIT)).toEqual({ 202: 2 });
    expect(world.notes).toContain(
      "an earlier submit of nurses got no answer, so the service may have the search twice; submits are never billed",
    );
  });
});

describe("an unlock", () => {
  test("within its ceiling is charged once, and all members are stored in their order", async () => {
    const world = await startAudience("{ max_billable: 50000 }", {
      config: audiencesOf(`everybody: { query: ${LARGE}, unlock: { max_billable: 50000 } }`),
    });
    const job = await runAudiences(world);
    expect(job).toMatchObject({ status: "succeeded" });
    const [search] = await searchesOfService(world);
    const members = await membersOfService(world, search?.segmentId ?? "");
    expect(members.length).toBeGreaterThan(500);
    expect(await storedMembers(world)).toEqual(members);
    expect(job.records_received).toBe(members.length);
    expect(await callsOf(world, UNLOCK)).toEqual({ 200: 1 });
    const billed = String(search?.billable);
    expect(await unlocksInLedger(world)).toEqual([
      { billed, reserved: billed, in_doubt: "0", possibly_billed: "f" },
    ]);
    expect(await budgetUse(world)).toBe(billed);
    expect(
      await world.rows(
        "SELECT billable_count, results_unlocked, unlocked_at IS NOT NULL AS has_time FROM person_data.audience_search",
      ),
    ).toEqual([{ billable_count: billed, results_unlocked: "t", has_time: "t" }]);
    expect(await runAudiences(world)).toMatchObject({ records_unchanged: 1, requests: 0 });
  });

  test("above its ceiling is not made, and is made once the ceiling is raised", async () => {
    const world = await startAudience("{ max_billable: 3 }");
    const job = await runAudiences(world);
    expect(job).toMatchObject({ status: "limited", limited_by: "unlock_ceiling" });
    expect(job.error?.message).toMatch(
      /^audiences: the audience nurses may be billed up to \d+ records when unlocked: more than max_billable \(3\) allows\. Nothing was unlocked\. Raise max_billable to unlock it\.$/,
    );
    expect(await callsOf(world, UNLOCK)).toEqual({});
    world.configure(audiencesOf(`nurses: { query: ${NURSES}, unlock: { max_billable: 500 } }`));
    expect(await runAudiences(world)).toMatchObject({ status: "succeeded" });
    expect(await callsOf(world, SUBMIT)).toEqual({ 202: 1 });
    expect(await callsOf(world, UNLOCK)).toEqual({ 200: 1 });
  });

  test("whose estimate exceeds the ceiling is not made, whatever the count", async () => {
    const world = await startAudience("{ max_billable: 500 }");
    const { http } = await world.services();
    const report = await world.run(
      {},
      {
        http: {
          ...http,
          async request(call) {
            const reply = await http.request(call);
            if (reply.kind === "failure" || !/search-jobs\/[^/]+$/u.test(call.path)) return reply;
            const body = bodyText(reply).replace(/("estimated_billable_count":)\d+/u, "$1501");
            return { ...reply, body: Buffer.from(body), contentEncoding: null };
          },
        },
      },
    );
    expect(report.jobs[0]).toMatchObject({ status: "limited", limited_by: "unlock_ceiling" });
    expect(await callsOf(world, UNLOCK)).toEqual({});
  });

  test("that a budget doesn't cover whole is not made", async () => {
    const world = await startAudience("{ max_billable: 500 }", {
      config: audiencesOf(
        `nurses: { query: ${NURSES}, unlock: { max_billable: 500 } }`,
        "",
        "budgets: { unlock: { per_month: 3 } }",
      ),
    });
    expect(await runAudiences(world)).toMatchObject({
      status: "limited",
      limited_by: "budget_month",
      records_sent: 0,
      records_remaining: 1,
    });
    expect(await callsOf(world, UNLOCK)).toEqual({});
    expect(await budgetUse(world)).toBe("0");
    world.configure(audiencesOf(`nurses: { query: ${NURSES}, unlock: { max_billable: 500 } }`));
    expect(await runAudiences(world)).toMatchObject({ status: "succeeded" });
  });

  test("without credits is not charged and ends as limited; the next run makes it", async () => {
    const world = await startAudience("{ max_billable: 500 }");
    await world.control("/capacity", { records: 2, code: "insufficient_credits" });
    expect(await runAudiences(world)).toMatchObject({ status: "limited", limited_by: "credits" });
    expect(await unlocksInLedger(world)).toEqual([
      { billed: null, reserved: "0", in_doubt: "0", possibly_billed: "f" },
    ]);
    expect(await budgetUse(world)).toBe("0");
    await world.control("/capacity", { records: null });
    expect(await runAudiences(world)).toMatchObject({ status: "succeeded" });
    expect((await storedMembers(world)).length).toBeGreaterThan(0);
  });

  test("of a preview is refused", async () => {
    const world = await startAudience("{ max_billable: 500 }");
    await world.control("/search_plan", { extent: "preview" });
    expect(await runAudiences(world)).toMatchObject({ status: "failed", error: { code: "preview_only" } });
    expect(await callsOf(world, UNLOCK)).toEqual({});
  });

  test("whose answer was lost is recognized, and charged once", async () => {
    const world = await startAudience("{ max_billable: 500 }", {
      faults: [{ fault: "reply_lost", rate: 1, endpoint: UNLOCK, from: 1, to: 8 }],
    });
    expect(await runAudiences(world)).toMatchObject({ status: "failed", error: { code: "no_answer" } });
    const [search] = await searchesOfService(world);
    const billed = String(search?.billable);
    expect(await unlocksInLedger(world)).toEqual([
      { billed: null, reserved: billed, in_doubt: billed, possibly_billed: "t" },
    ]);
    expect(await runAudiences(world)).toMatchObject({ status: "succeeded" });
    expect(await unlocksInLedger(world)).toEqual([
      { billed, reserved: billed, in_doubt: "0", possibly_billed: "f" },
    ]);
    expect(await storedMembers(world)).toEqual(await membersOfService(world, search?.segmentId ?? ""));
    expect(
      await world.rows(
        "SELECT billable_count, unlocked_at IS NOT NULL AS has_time FROM person_data.audience_search",
      ),
    ).toEqual([{ billable_count: billed, has_time: "t" }]);
  });

  test("in progress (409) is waited for", async () => {
    const world = await startAudience("{ max_billable: 500 }", {
      faults: [{ fault: "409", rate: 1, endpoint: UNLOCK, from: 1, to: 3 }],
    });
    expect(await runAudiences(world)).toMatchObject({ status: "succeeded" });
    expect(await callsOf(world, UNLOCK)).toEqual({ 200: 1, 409: 3 });
  });

  test("of a search made again after refresh_after charges only people who weren't unlocked before", async () => {
    const config = audiencesOf(
      `nurses: { query: ${NURSES}, unlock: { max_billable: 500 } }`,
      ", refresh_after: 7d",
    );
    const world = await startAudience("never", { config });
    await runAudiences(world);
    const members = await storedMembers(world);
    expect(await runAudiences(world)).toMatchObject({ records_unchanged: 1 });
    await world.rows(
      `UPDATE person_data_ops.checkpoint SET cursor = jsonb_set(cursor, '{submitted_at}', '"2020-01-01T00:00:00Z"')`,
    );
    expect(await runAudiences(world)).toMatchObject({ status: "succeeded", records_sent: 1 });
    expect((await searchesOfService(world)).map(({ billable }) => billable)).toEqual([members.length, 0]);
    expect(await budgetUse(world)).toBe(String(members.length));
    expect(
      await world.rows(
        "SELECT count(*) AS rows, count(DISTINCT segment_id) AS audiences FROM person_data.audience_search_member",
      ),
    ).toEqual([{ rows: String(2 * members.length), audiences: "2" }]);
  });

  test("in progress (409) is not repeated once the audience has grown above its ceiling", async () => {
    const world = await startAudience("{ max_billable: 30 }", {
      faults: [{ fault: "409", rate: 1, endpoint: UNLOCK, from: 1, to: 1 }],
    });
    const others = await startAudience("{ max_billable: 50000 }", {
      config: audiencesOf("teachers: { query: teachers, unlock: { max_billable: 50000 } }"),
    });
    await runAudiences(others);
    const more = (await storedMembers(others)).slice(0, 31);
    const http = await httpWith(world, async (call, send) => {
      const reply = await send();
      if (call.method === "POST" && call.path.includes("results")) {
        const [search] = await searchesOfService(world);
        await world.control("/search_members", { segment_id: search?.segmentId, service_pids: more });
      }
      return reply;
    });
    const report = await world.run({}, { http });
    expect(report.jobs).toMatchObject([{ status: "limited", limited_by: "unlock_ceiling" }]);
    expect(await callsOf(world, UNLOCK)).toEqual({ 409: 1 });
    // Another unlock was in progress, and none of ours without an answer.
    expect(await budgetUse(world)).toBe("0");
    world.configure(audiencesOf(`nurses: { query: ${NURSES}, unlock: { max_billable: 31 } }`));
    expect(await runAudiences(world)).toMatchObject({ status: "succeeded" });
    expect(await budgetUse(world)).toBe("31");
  });

  test("whose answer was lost is charged, even if it ends after the ceiling was lowered", async () => {
    const world = await startAudience("{ max_billable: 500 }", {
      faults: [{ fault: "cut_before", rate: 1, endpoint: UNLOCK, from: 1, to: 8 }],
    });
    expect(await runAudiences(world)).toMatchObject({ status: "failed", error: { code: "no_answer" } });
    world.configure(audiencesOf(`nurses: { query: ${NURSES}, unlock: { max_billable: 1 } }`));
    expect(await runAudiences(world)).toMatchObject({ status: "limited", limited_by: "unlock_ceiling" });
    // The service carries out the unlock that got no answer.
    const [search] = await searchesOfService(world);
    const path = `/person-search/v0/search-jobs/${search?.segmentId}/results?limit=100&offset=0`;
    await fetch(world.sandbox.url + path, { method: "POST", headers: { "x-api-key": "test-key" } });
    const [unlocked] = await searchesOfService(world);
    expect(await runAudiences(world)).toMatchObject({ status: "succeeded" });
    expect(await budgetUse(world)).toBe(String(unlocked?.billable));
  });

  test("added later applies to the finished audience", async () => {
    const world = await startAudience();
    await runAudiences(world);
    world.configure(audiencesOf(`nurses: { query: ${NURSES}, unlock: { max_billable: 500 } }`));
    expect(await runAudiences(world)).toMatchObject({ status: "succeeded", records_sent: 1 });
    expect(await callsOf(world, SUBMIT)).toEqual({ 202: 1 });
    expect((await storedMembers(world)).length).toBeGreaterThan(0);
  });
});

describe("the members of an audience", () => {
  const everybody = audiencesOf(`everybody: { query: teachers or nurses, unlock: { max_billable: 50000 } }`);

  test("are left out once erased, also when they are read again", async () => {
    const world = await startAudience("{ max_billable: 500 }");
    await runAudiences(world);
    const before = await storedMembers(world);
    await eraseByPid(world, before[2] ?? "");
    expect(await storedMembers(world)).toEqual(before.filter((_, i) => i !== 2));
    expect(await runAudiences(world, { fullRefresh: true })).toMatchObject({ status: "succeeded" });
    expect(await storedMembers(world)).toEqual(before.filter((_, i) => i !== 2));
    expect(await callsOf(world, UNLOCK)).toEqual({ 200: 1 });
  });

  test("that change while they are read are read again, and end exact", async () => {
    const world = await startAudience("never", { config: everybody });
    const services = await world.services();
    let pages = 0;
    const http: typeof services.http = {
      ...services.http,
      async request(call) {
        const reply = await services.http.request(call);
        if (/results\?limit=100&offset=/u.test(call.path) && ++pages === 5) {
          const [search] = await searchesOfService(world);
          const id = search?.segmentId ?? "";
          const members = await membersOfService(world, id);
          await world.control("/search_members", { segment_id: id, service_pids: members.slice(7) });
        }
        return reply;
      },
    };
    expect(jobStatus(await world.run({}, { http }))).toBe("succeeded");
    const [search] = await searchesOfService(world);
    const members = await membersOfService(world, search?.segmentId ?? "");
    expect(members.length).toBeGreaterThan(600);
    expect(await storedMembers(world)).toEqual(members);
    expect(world.logged.map(({ event }) => event)).toContain("audience_read_again");
  });

  test("stay stored while they are read again, until those that are gone are deleted at its end", async () => {
    const world = await startAudience("never", { config: everybody });
    await runAudiences(world);
    const before = await storedMembers(world);
    const [search] = await searchesOfService(world);
    const id = search?.segmentId ?? "";
    await world.control("/search_members", { segment_id: id, service_pids: before.slice(7) });
    const http = await httpWith(world, async (call, send) => {
      if (call.path.endsWith("offset=300")) throw new Error("The source fails.");
      return send();
    });
    expect(jobStatus(await world.run({ fullRefresh: true }, { http }))).toBe("failed");
    expect(await storedSet(world)).toEqual(before.toSorted());
    const seen = await seenDuring(
      world,
      `SELECT count(*) BETWEEN ${before.length - 7} AND ${before.length} AS is_whole FROM person_data.audience_search_member`,
      async () => {
        expect(await runAudiences(world)).toMatchObject({ status: "succeeded" });
      },
    );
    expect([...seen.seen]).toEqual(["true"]);
    expect(await storedMembers(world)).toEqual(before.slice(7));
    expect(await world.rows("SELECT FROM person_data_state.segment_listed")).toEqual([]);
  });

  test("are not read past their last page by a run that resumes there", async () => {
    const world = await startAudience("{ max_billable: 500 }");
    const { progress } = await world.services();
    const killed = {
      ...progress,
      end() {
        throw new Error("killed");
      },
    };
    expect(jobStatus(await world.run({}, { progress: killed }))).toBe("failed");
    expect(await world.value("SELECT members_stored_at FROM person_data.audience_search")).toBe(null);
    const paths: string[] = [];
    const http = await httpWith(world, (call, send) => {
      paths.push(call.path);
      return send();
    });
    expect(jobStatus(await world.run({}, { http }))).toBe("succeeded");
    expect(paths.filter((path) => path.includes("results"))).toEqual([]);
    const [search] = await searchesOfService(world);
    expect(await storedMembers(world)).toEqual(await membersOfService(world, search?.segmentId ?? ""));
  });

  test("that the service lists twice are stored once", async () => {
    const world = await startAudience("{ max_billable: 500 }");
    await world.control("/search_plan", {});
    await runAudiences(world);
    const [search] = await searchesOfService(world);
    const id = search?.segmentId ?? "";
    const members = await membersOfService(world, id);
    await world.control("/search_members", {
      segment_id: id,
      service_pids: [...members, ...members.slice(0, 3)],
    });
    expect(await runAudiences(world, { fullRefresh: true })).toMatchObject({ status: "succeeded" });
    expect((await storedMembers(world)).toSorted()).toEqual(members.toSorted());
  });
});

type Http = Awaited<ReturnType<World["services"]>>["http"];
type HttpReply = Awaited<ReturnType<Http["request"]>>;

/** Client whose calls are intercepted. */
async function httpWith(
  world: World,
  intercept: (call: Parameters<Http["request"]>[0], send: () => Promise<HttpReply>) => Promise<HttpReply>,
): Promise<Http> {
  const { http } = await world.services();
  return { ...http, request: (call) => intercept(call, () => http.request(call)) };
}

/** Text of an uncompressed body, which is in memory for calls that are free. */
function bodyText({ body }: Extract<HttpReply, { kind: "response" }>): string {
  return Buffer.isBuffer(body) ? body.toString() : "";
}

function withBody(reply: HttpReply, change: (body: Record<string, unknown>) => object): HttpReply {
  if (reply.kind !== "response") return reply;
  // Bodies of the service are JSON objects.
  const body = JSON.parse(bodyText(reply)) as Record<string, unknown>;
  return { ...reply, body: Buffer.from(JSON.stringify(change(body))) };
}

const withStatus = (reply: HttpReply, status: number): HttpReply =>
  reply.kind === "response" ? { ...reply, status } : reply;

const storedSet = async (world: World) => (await storedMembers(world)).toSorted();

function jobStatus(report: { readonly jobs: readonly { readonly status: string }[] }): string | undefined {
  return report.jobs[0]?.status;
}
