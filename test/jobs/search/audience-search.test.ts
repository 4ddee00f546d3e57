import { describe, expect, onTestFinished, test } from "vitest";
import { openHttpClient } from "../../../src/extract/http-client.ts";
import {
  ageSearches,
  audiencesOf,
  budgetUse,
  callsOf,
  changed,
  httpWith,
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
import { erase, jobOf, seenDuring, type World } from "../world.ts";

const STATUS = "GET /person-search/v0/search-jobs/{segment_id}";

// See test/faults and test/crash for faults and kills.
const nurses = (max: number) => audiencesOf(`nurses: { query: ${NURSES}, unlock: { max_billable: ${max} } }`);
const many = audiencesOf("everybody: { query: teachers or nurses, unlock: { max_billable: 50000 } }");
const idOf = async (world: World) => (await searchesOfService(world))[0]?.segmentId ?? "";
const runWith = async (world: World, services: Parameters<World["run"]>[1], request = {}) =>
  jobOf(await world.run(request, services), "audiences");
/** Expects the members that the service lists, in their order. */
const expectMembers = async (world: World) =>
  expect(await storedMembers(world)).toEqual(await membersOfService(world, await idOf(world)));

describe("an audience search", () => {
  test("is submitted once, waited for and stored with its demographics, and nothing is unlocked", async () => {
    const world = await startAudience("never", {
      faults: [{ fault: "503", rate: 1, endpoint: STATUS, from: 1, to: 2 }],
    });
    expect(await runAudiences(world)).toMatchObject({
      status: "succeeded",
      records_read: 1,
      records_sent: 1,
    });
    expect(await callsOf(world, STATUS)).toMatchObject({ 503: 2 });
    expect(
      await world.rows(
        `SELECT segment_id, search_name, query, status, materialization_extent AS extent, total_count = estimated_billable_count AS is_exact,
          billable_count, results_unlocked, error_code,
          (SELECT count(*) FROM person_data.audience_search_coverage) AS channels,
          (SELECT count(DISTINCT distribution) FROM person_data.audience_search_distribution) AS distributions
         FROM person_data.audience_search WHERE total_count > 0`,
      ),
    ).toEqual([
      {
        segment_id: await idOf(world),
        search_name: "nurses",
        query: NURSES,
        status: "completed",
        extent: "full",
        is_exact: "t",
        billable_count: null,
        results_unlocked: "f",
        error_code: null,
        channels: "3",
        distributions: "8",
      },
    ]);
    expect(await callsOf(world, UNLOCK)).toEqual({});
    expect(await runAudiences(world)).toMatchObject({ records_unchanged: 1, requests: 0 });
    expect(await callsOf(world, SUBMIT)).toEqual({ 202: 1 });
    // An unlock added later applies to the finished audience.
    world.configure(nurses(500));
    expect(await runAudiences(world)).toMatchObject({ status: "succeeded", records_sent: 1 });
    expect(await callsOf(world, SUBMIT)).toEqual({ 202: 1 });
    await expectMembers(world);
  });

  test("goes on in any state, known or not, until its deadline, and the next run resumes it", async () => {
    const world = await startAudience("never", {
      config: audiencesOf(`nurses: { query: ${NURSES} }`, ", deadline: 20s"),
    });
    const states = [
      "created",
      "querying",
      "previewed",
      "reticulating_splines",
      ...Array<string>(8).fill("counting"),
    ];
    await world.control("/search_plan", { states, state_ms: null });
    expect(await runAudiences(world)).toMatchObject({
      status: "limited",
      limited_by: "deadline",
      records_remaining: 1,
      records_sent: 0,
    });
    expect(world.notes).toEqual(["waiting for the service to finish nurses"]);
    await world.control("/search_plan", {});
    // The same text under another name is the same search.
    world.configure(audiencesOf(`carers: { query: ${NURSES} }`, ", deadline: 20s"));
    for (let runs = 0; (await runAudiences(world)).status === "limited"; runs++)
      expect(runs).toBeLessThan(20);
    expect(await world.rows("SELECT search_name, status FROM person_data.audience_search")).toEqual([
      { search_name: "carers", status: "completed" },
    ]);
    expect(await world.value("SELECT cursor->>'search' FROM person_data_ops.checkpoint")).toBe("carers");
    expect(await callsOf(world, SUBMIT)).toEqual({ 202: 1 });
  });

  test("that fails is stored with its cause and fails each run, without another submit, until its text changes", async () => {
    const world = await startAudience("never", {
      config: audiencesOf('odd: { query: "nurses who like gardening in Ohio" }'),
    });
    const message = expect.stringMatching(
      /^audiences: the audience odd failed \(search_criteria_failed\)\. The table audience_search has its error_message, error_criteria and suggested_search\. Revise its query, or submit it again: `checkpoint reset audiences --stream [0-9a-f]{16}`\.$/,
    );
    const failed = { status: "failed", error: { code: "search_failed", message } };
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
        criteria: "2",
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
    const states = ["created", "computing_stats"];
    await world.control("/search_plan", { states, state_ms: null, outcome: "search_worker_lost" });
    const services = await httpWith(world, async (_call, send) =>
      changed(await send(), {
        body: ({ total_count: total, ...body }) =>
          body["status"] === "failed" ? body : { ...body, total_count: total },
      }),
    );
    expect(await runWith(world, services)).toMatchObject({ error: { code: "search_failed" } });
    const stored = "SELECT status, error_code, total_count > 0 AS has_count FROM person_data.audience_search";
    expect(await world.rows(stored)).toEqual([
      { status: "failed", error_code: "search_worker_lost", has_count: "t" },
    ]);
  });

  test("with an organization's key explains that it needs a user's", async () => {
    const world = await startAudience();
    const withKeys = (keys: { readonly readUserKey?: () => Promise<string> }) => {
      const http = openHttpClient({
        baseUrl: world.serviceUrl,
        readKey: async () => "organization-only",
        concurrency: 1,
        ...keys,
      });
      onTestFinished(() => http.close());
      return { http };
    };
    expect((await runWith(world, withKeys({}))).error).toMatchObject({
      code: "user_key_required",
      message: expect.stringMatching(
        /^POST \/person-search\/v0\/search-jobs: the service rejected the API key \(401, request \S+\)\. Asynchronous person search requires the key of a user; keys of an organization alone are rejected\. Create one in the service's web application and set service\.user_api_key\.$/,
      ),
    });
    expect(await world.rows("SELECT FROM person_data_ops.checkpoint WHERE job = 'audiences'")).toEqual([]);
    const second = await runWith(world, withKeys({ readUserKey: async () => "user-key" }));
    expect(second.status).toBe("succeeded");
    // The refused submit is not one without an answer.
    expect(world.notes.join(" ")).not.toContain("twice");
  });

  test("whose refresh is refused stays as it is until then, and is made again as a search of its own", async () => {
    const world = await startAudience("never", {
      config: audiencesOf(`nurses: { query: ${NURSES} }`, ", refresh_after: 1d"),
    });
    await runAudiences(world);
    await ageSearches(world);
    const checkpoint = "SELECT cursor::text FROM person_data_ops.checkpoint WHERE job = 'audiences'";
    const before = await world.value(checkpoint);
    const services = await httpWith(world, async (call, send) =>
      call.method === "POST" ? changed(await send(), { status: 422 }) : send(),
    );
    expect((await runWith(world, services)).status).toBe("failed");
    expect(await world.value(checkpoint)).toEqual(before);
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
      "an earlier request to submit nurses had no response, so the service may have the search twice; submitting is never billed",
    );
  });
});

describe("an unlock", () => {
  test("within its ceiling is charged once, and all members are stored in their order", async () => {
    const world = await startAudience("never", { config: many });
    const job = await runAudiences(world);
    expect(job).toMatchObject({ status: "succeeded" });
    await expectMembers(world);
    expect(job.records_received).toBeGreaterThan(500);
    expect(await callsOf(world, UNLOCK)).toEqual({ 200: 1 });
    const billed = String((await searchesOfService(world))[0]?.billable);
    expect(await unlocksInLedger(world)).toEqual([
      { billed, reserved: billed, in_doubt: "0", possibly_billed: "f" },
    ]);
    expect(await budgetUse(world)).toBe(billed);
    const stored =
      "SELECT billable_count, results_unlocked, unlocked_at IS NOT NULL AS has_time FROM person_data.audience_search";
    expect(await world.rows(stored)).toEqual([
      { billable_count: billed, results_unlocked: "t", has_time: "t" },
    ]);
    expect(await runAudiences(world)).toMatchObject({ records_unchanged: 1, requests: 0 });
  });

  test("above its ceiling, that a budget doesn't cover whole, or without credits is not made, and is made once it may be", async () => {
    const world = await startAudience("{ max_billable: 3 }");
    const job = await runAudiences(world);
    expect(job).toMatchObject({ limited_by: "unlock_ceiling", records_sent: 0, records_remaining: 1 });
    expect(job.error?.message).toMatch(
      /^audiences: the audience nurses may be billed up to \d+ records when unlocked: more than max_billable \(3\) allows\. Nothing was unlocked\. Raise max_billable to unlock it\.$/,
    );
    world.configure(`${nurses(500)}budgets: { unlock: { per_month: 3 } }`);
    expect(await runAudiences(world)).toMatchObject({
      status: "limited",
      limited_by: "budget_month",
      records_sent: 0,
      records_remaining: 1,
    });
    expect(await callsOf(world, UNLOCK)).toEqual({});
    expect(await budgetUse(world)).toBe("0");
    world.configure(nurses(500));
    await world.control("/capacity", { records: 2, code: "insufficient_credits" });
    expect(await runAudiences(world)).toMatchObject({ status: "limited", limited_by: "credits" });
    expect(await unlocksInLedger(world)).toEqual([
      { billed: null, reserved: "0", in_doubt: "0", possibly_billed: "f" },
    ]);
    expect(await budgetUse(world)).toBe("0");
    await world.control("/capacity", { records: null });
    expect(await runAudiences(world)).toMatchObject({ status: "succeeded" });
    await expectMembers(world);
    expect(await callsOf(world, SUBMIT)).toEqual({ 202: 1 });
    expect(await callsOf(world, UNLOCK)).toEqual({ 200: 1, 402: 1 });
  });

  test("whose estimate exceeds the ceiling, of unknown size or of a preview is not made", async () => {
    const world = await startAudience("{ max_billable: 500 }");
    for (const [state, code] of [
      [{ estimated_billable_count: 501 }, "unlock_ceiling"],
      [{ total_count: null }, "count_unknown"],
      [{ materialization_extent: "preview" }, "preview_only"],
    ] as const) {
      const services = await httpWith(world, async (call, send) =>
        /search-jobs\/[^/]+$/u.test(call.path)
          ? changed(await send(), { body: (body) => ({ ...body, ...state }) })
          : send(),
      );
      expect((await runWith(world, services)).error?.code).toBe(code);
    }
    expect(await callsOf(world, UNLOCK)).toEqual({});
  });

  test("whose answer was lost is recognized, and charged once", async () => {
    const world = await startAudience("{ max_billable: 500 }", {
      faults: [{ fault: "reply_lost", rate: 1, endpoint: UNLOCK, from: 1, to: 8 }],
    });
    expect(await runAudiences(world)).toMatchObject({ status: "failed", error: { code: "no_answer" } });
    const billed = String((await searchesOfService(world))[0]?.billable);
    const settled = { billed, reserved: billed, in_doubt: "0", possibly_billed: "f" };
    expect(await unlocksInLedger(world)).toEqual([
      { ...settled, billed: null, in_doubt: billed, possibly_billed: "t" },
    ]);
    expect(await runAudiences(world)).toMatchObject({ status: "succeeded" });
    expect(await unlocksInLedger(world)).toEqual([settled]);
    await expectMembers(world);
    const stored =
      "SELECT billable_count, unlocked_at IS NOT NULL AS has_time FROM person_data.audience_search";
    expect(await world.rows(stored)).toEqual([{ billable_count: billed, has_time: "t" }]);
  });

  test("in progress (409) is waited for, but not repeated once the audience has grown above its ceiling", async () => {
    const world = await startAudience("{ max_billable: 30 }", {
      faults: [{ fault: "409", rate: 1, endpoint: UNLOCK, from: 1, to: 1 }],
    });
    const others = await startAudience("never", { config: many });
    await runAudiences(others);
    const more = (await storedMembers(others)).slice(0, 31);
    const services = await httpWith(world, async (call, send) => {
      const reply = await send();
      if (call.method === "POST" && call.path.includes("results"))
        await world.control("/search_members", { segment_id: await idOf(world), service_pids: more });
      return reply;
    });
    expect(await runWith(world, services)).toMatchObject({ limited_by: "unlock_ceiling" });
    expect(await callsOf(world, UNLOCK)).toEqual({ 409: 1 });
    // Another unlock was in progress, and none of ours without an answer.
    expect(await budgetUse(world)).toBe("0");
    world.configure(nurses(31));
    expect(await runAudiences(world)).toMatchObject({ status: "succeeded" });
    expect(await budgetUse(world)).toBe("31");
  });

  test("whose answer was lost is charged, even if it ends after the ceiling was lowered", async () => {
    const world = await startAudience("{ max_billable: 500 }", {
      faults: [{ fault: "cut_before", rate: 1, endpoint: UNLOCK, from: 1, to: 8 }],
    });
    expect(await runAudiences(world)).toMatchObject({ status: "failed", error: { code: "no_answer" } });
    world.configure(nurses(1));
    expect(await runAudiences(world)).toMatchObject({ status: "limited", limited_by: "unlock_ceiling" });
    // The service carries out the unlock that got no answer.
    const path = `/person-search/v0/search-jobs/${await idOf(world)}/results?limit=100&offset=0`;
    await fetch(world.sandbox.url + path, { method: "POST", headers: { "x-api-key": "test-key" } });
    const [unlocked] = await searchesOfService(world);
    expect(await runAudiences(world)).toMatchObject({ status: "succeeded" });
    expect(await budgetUse(world)).toBe(String(unlocked?.billable));
  });
});

describe("the members of an audience", () => {
  test("that the service lists twice are stored once, and are left out once erased, also when they are read again", async () => {
    const world = await startAudience("{ max_billable: 500 }");
    await runAudiences(world);
    const before = await storedMembers(world);
    const listed = [...before, ...before.slice(0, 3)];
    await world.control("/search_members", { segment_id: await idOf(world), service_pids: listed });
    expect(await runAudiences(world, { fullRefresh: true })).toMatchObject({ status: "succeeded" });
    expect((await storedMembers(world)).toSorted()).toEqual(before.toSorted());
    await world.control("/search_members", { segment_id: await idOf(world), service_pids: before });
    await runAudiences(world, { fullRefresh: true });
    await erase(world, { pids: before.slice(2, 3) });
    expect(await storedMembers(world)).toEqual(before.filter((_, i) => i !== 2));
    expect(await runAudiences(world, { fullRefresh: true })).toMatchObject({ status: "succeeded" });
    expect(await storedMembers(world)).toEqual(before.filter((_, i) => i !== 2));
    expect(await callsOf(world, UNLOCK)).toEqual({ 200: 1 });
  });

  test("that change while they are read are read again, and end exact", async () => {
    const world = await startAudience("never", { config: many });
    let pages = 0;
    const services = await httpWith(world, async (call, send) => {
      const reply = await send();
      if (/results\?limit=100&offset=/u.test(call.path) && ++pages === 5) {
        const id = await idOf(world);
        const members = await membersOfService(world, id);
        await world.control("/search_members", { segment_id: id, service_pids: members.slice(7) });
      }
      return reply;
    });
    expect((await runWith(world, services)).status).toBe("succeeded");
    await expectMembers(world);
    expect(world.logged.map(({ event }) => event)).toContain("audience_read_again");
  });

  test("stay stored while they are read again, until those that are gone are deleted at its end", async () => {
    const world = await startAudience("never", { config: many });
    await runAudiences(world);
    const before = await storedMembers(world);
    const id = await idOf(world);
    await world.control("/search_members", { segment_id: id, service_pids: before.slice(7) });
    const services = await httpWith(world, async (call, send) => {
      if (call.path.endsWith("offset=300")) throw new Error("The source fails.");
      return send();
    });
    expect((await runWith(world, services, { fullRefresh: true })).status).toBe("failed");
    expect((await storedMembers(world)).toSorted()).toEqual(before.toSorted());
    const isWhole = `SELECT count(*) BETWEEN ${before.length - 7} AND ${before.length} FROM person_data.audience_search_member`;
    const { seen } = await seenDuring(world, isWhole, async () => {
      expect(await runAudiences(world)).toMatchObject({ status: "succeeded" });
    });
    expect([...seen]).toEqual(["true"]);
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
    expect((await runWith(world, { progress: killed })).status).toBe("failed");
    expect(await world.value("SELECT members_stored_at FROM person_data.audience_search")).toBe(null);
    const paths: string[] = [];
    const services = await httpWith(world, (call, send) => {
      paths.push(call.path);
      return send();
    });
    expect((await runWith(world, services)).status).toBe("succeeded");
    expect(paths.filter((path) => path.includes("results"))).toEqual([]);
    await expectMembers(world);
  });
});
