import { describe, expect, onTestFinished, test } from "vitest";
import { callsOf as statusesOf } from "./audience-world.ts";
import { send, startService } from "../../extract/scripted-service.ts";
import { configOf, erase, jobOf, startWorld, unaccountedRows, type World } from "../world.ts";

const NURSES = "nurses: { query: registered nurses in Ohio, size: 7 }";
const configured = (searches: string, more = "") =>
  configOf(`
  prospects: { type: person_search, searches: { ${searches} }${more} }`);

const withBudget = (perDay: number) =>
  `budgets: { person_search: { per_day: ${perDay} } }\n${configured(`${NURSES}, teachers: { query: teachers, size: 5 }`)}`;
const start = (searches = NURSES, more = "") =>
  startWorld({ rows: 0, people: 20_000, config: configured(searches, more) });
const runOnce = async (world: World, request = {}) => jobOf(await world.run(request), "prospects");

/** Calls of an endpoint that the sandbox carried out. */
async function callsOf(world: World, endpoint: string): Promise<number> {
  return (await statusesOf(world, endpoint))["200"] ?? 0;
}
const searchesMade = (world: World) => callsOf(world, "POST /person-search/v0/search");

/** Sets the daily limit so that `left` records are left; others have used some of it by now. Returns the limit. */
async function leave(world: World, left: number): Promise<number> {
  const response = await fetch(`${world.serviceUrl}/person-search/v0/usage`, {
    headers: { "x-api-key": "test-key" },
  });
  const usage = (await response.json()) as Record<string, number>;
  const records = Number(usage["current_day_records_delivered"]) + left;
  await world.control("/daily_limit", { records });
  return records;
}

describe("a person search", () => {
  test("is stored with its coverage and its people in the service's order", async () => {
    const world = await start();
    expect(await runOnce(world)).toMatchObject({
      status: "succeeded",
      records_read: 1,
      records_sent: 1,
      records_matched: 1,
      records_received: 7,
      requests: 2,
      rows_written: 16,
    });
    const stored =
      "SELECT concat_ws('|', search_name, query, total_count > 7, result_count) FROM person_data.person_search";
    expect(await world.value(stored)).toBe("nurses|registered nurses in Ohio|t|7");
    const coverage = `SELECT string_agg(scope || ' ' || channels, ', ' ORDER BY scope) FROM (
      SELECT scope, count(*) AS channels FROM person_data.person_search_coverage GROUP BY 1) AS s`;
    expect(await world.value(coverage)).toBe("results 4, total 4");
    const people =
      "SELECT concat_ws(' ', count(*), count(DISTINCT service_pid), max(position)) FROM person_data.person_search_result";
    expect(await world.value(people)).toBe("7 7 6");
  });

  test("is made once per text and size, whatever its name, also if the daily limit can't be read", async () => {
    const world = await start();
    await world.control("/faults", {
      faults: [{ fault: "500", rate: 1, endpoint: "GET /person-search/v0/usage" }],
    });
    expect(await runOnce(world)).toMatchObject({ status: "succeeded", records_received: 7 });
    await world.control("/faults", { faults: "" });
    expect(await runOnce(world)).toMatchObject({ records_unchanged: 1, records_sent: 0, requests: 0 });
    world.configure(configured(NURSES.replace("nurses:", "carers:")));
    expect(await runOnce(world)).toMatchObject({ records_unchanged: 1, requests: 0 });
    world.configure(configured(NURSES.replace("7", "8")));
    expect(await runOnce(world)).toMatchObject({ records_sent: 1, records_received: 8 });
    world.configure(configured(NURSES));
    expect(await runOnce(world)).toMatchObject({ records_unchanged: 1, requests: 0 });
    expect(await searchesMade(world)).toBe(2);
  });

  test("is made again after refresh_after, as a search of its own", async () => {
    const world = await start(NURSES, ", refresh_after: 30d");
    await runOnce(world);
    expect(await runOnce(world)).toMatchObject({ records_unchanged: 1 });
    await world.rows(
      `UPDATE person_data_ops.checkpoint SET cursor = jsonb_set(cursor, '{searched_at}', '"2020-01-01T00:00:00Z"')`,
    );
    expect(await runOnce(world)).toMatchObject({ records_sent: 1 });
    expect(await runOnce(world)).toMatchObject({ records_unchanged: 1 });
    expect(await world.value("SELECT count(*) FROM person_data.person_search")).toBe("2");
  });

  test("is read again by its ID with --full-refresh, which restores its rows and makes no search", async () => {
    const world = await start();
    await runOnce(world);
    const rows =
      "SELECT string_agg(service_pid, ' ' ORDER BY position) FROM person_data.person_search_result";
    const before = await world.value(rows);
    await world.rows("UPDATE person_data.person_search SET _synced_at = '2020-01-01'");
    await world.rows(`DELETE FROM person_data.person_search_result WHERE position < 3;
      INSERT INTO person_data.person_search_result SELECT search_id, 99, 'p-99', now(), '' FROM person_data.person_search`);
    expect(await runOnce(world, { fullRefresh: true })).toMatchObject({ status: "succeeded", requests: 1 });
    expect(await world.value(rows)).toBe(before);
    // Children are published with their parent.
    expect(await world.value("SELECT _synced_at > '2020-01-01' FROM person_data.person_search")).toBe("t");
    expect(await searchesMade(world)).toBe(1);
    expect(await callsOf(world, "GET /person-search/v0/search/{search_id}")).toBe(1);
  });

  test("without criteria fails with an explanation, and the others are made", async () => {
    const world = await start(`nobody: { query: Jane Doe }, ${NURSES}`);
    const job = await runOnce(world);
    expect(job).toMatchObject({
      status: "failed",
      records_sent: 2,
      records_rejected: 1,
      error: {
        code: "no_filters_extracted",
        message:
          "prospects: the query of nobody has no criteria that the service recognizes (400). Describe an audience by role, industry, company, " +
          "place, age, education or contact channel; named individuals can't be searched for.",
      },
    });
    expect(await world.value("SELECT string_agg(search_name, ',') FROM person_data.person_search")).toBe(
      "nurses",
    );
    // Only the other search counts in the budget.
    const counted =
      "SELECT records_reserved FROM person_data_state.budget_use WHERE (budget, period) = ('person_search', 'day')";
    expect(await world.value(counted)).toBe("7");
  });

  test("whose size exceeds what the daily limit leaves isn't sent", async () => {
    const world = await start(`${NURSES}, teachers: { query: teachers, size: 5 }`);
    const limit = await leave(world, 11);
    const { run_id: _, ...report } = await world.run();
    expect(report).toMatchObject({ status: "limited" });
    expect(report.jobs[0]).toMatchObject({
      limited_by: "quota",
      records_sent: 1,
      records_remaining: 1,
      error: {
        message:
          `prospects: the organization's daily limit of person search has 4 of ${limit} records left until 00:00 UTC, and teachers ` +
          "may return 5. Run again tomorrow, or lower its size.",
      },
    });
    expect(await searchesMade(world)).toBe(1);
    await leave(world, 1000);
    expect(await runOnce(world)).toMatchObject({
      status: "succeeded",
      records_unchanged: 1,
      records_sent: 1,
    });
  });

  test("that may deliver more than its budget has left isn't sent; the people delivered count, not their searches", async () => {
    const world = await start();
    world.configure(withBudget(11));
    expect(await runOnce(world)).toMatchObject({
      status: "limited",
      limited_by: "budget_day",
      records_sent: 1,
      records_remaining: 1,
    });
    const counted =
      "SELECT period || ' ' || records_reserved FROM person_data_state.budget_use WHERE budget = 'person_search' ORDER BY 1";
    const used = async () => (await world.rows(counted)).map((row) => Object.values(row)[0]);
    expect(await used()).toEqual(["day 7", "month 7"]);
    expect(await world.value("SELECT count(*) FROM person_data_ops.cost_daily")).toBe("0");
    // A search is one record of the service's usage, however many people it delivers.
    const sent =
      "SELECT records_sent || ' ' || records_matched FROM person_data_ops.api_call WHERE budget = 'person_search'";
    expect(await world.value(sent)).toBe("1 7");
    world.configure(withBudget(12));
    expect(await runOnce(world)).toMatchObject({ status: "succeeded", records_sent: 1, records_received: 5 });
    expect(await used()).toEqual(["day 12", "month 12"]);
    expect(await searchesMade(world)).toBe(2);
  });

  test("that the service refuses for another reason isn't said to lack criteria", async () => {
    const world = await start();
    const service = await startService(({ method }, response) => {
      if (method === "POST") send(response, 400, { code: "bad_request", message: "no" });
      else send(response, 404, { code: "not_found", message: "no" });
    });
    onTestFinished(() => service.close());
    world.serviceUrl = service.url;
    expect(await runOnce(world)).toMatchObject({
      status: "failed",
      records_rejected: 1,
      error: {
        code: "request_refused",
        message: expect.stringContaining("the service returned 400 bad_request"),
      },
    });
  });

  test("may have a number as its ID", async () => {
    const world = await start();
    const service = await startService(({ method }, response) => {
      const found = { search_id: 12, query: "nurses", total_count: 1, result_count: 1, results: ["p-1"] };
      send(response, 200, method === "POST" ? found : {});
    });
    onTestFinished(() => service.close());
    world.serviceUrl = service.url;
    expect(await runOnce(world)).toMatchObject({ status: "succeeded", records_received: 1 });
    expect(await world.value("SELECT search_id FROM person_data.person_search_result")).toBe("12");
  });

  test("that a run doesn't reach is counted as remaining", async () => {
    const world = await start();
    await runOnce(world);
    world.configure(configured(`${NURSES}, teachers: { query: teachers, size: 5 }`));
    await world.control("/faults", { faults: "revoked" });
    const job = await runOnce(world, { fullRefresh: true });
    expect(job).toMatchObject({
      error: { code: "key_rejected" },
      records_read: 2,
      records_unchanged: 1,
      records_remaining: 1,
    });
    expect(unaccountedRows(job)).toBe(0);
  });

  test("whose answer was lost is repeated once, and then left to the next run", async () => {
    const world = await start();
    await world.control("/faults", {
      faults: [{ fault: "reply_lost", rate: 1, endpoint: "POST /person-search/v0/search", from: 1, to: 2 }],
    });
    expect(await runOnce(world)).toMatchObject({ status: "failed", error: { code: "no_answer" } });
    expect(await searchesMade(world)).toBe(2);
    const counted =
      "SELECT sum(records_reserved) FROM person_data_ops.api_call WHERE budget = 'person_search'";
    expect(await world.value(counted)).toBe("7");
    expect(await runOnce(world)).toMatchObject({ status: "succeeded" });
    expect(await world.value("SELECT count(*) FROM person_data.person_search")).toBe("1");
    expect(await world.value(counted)).toBe("14");
  });

  test("leaves out who was erased, also when it is read again, and is marked as changed", async () => {
    const world = await start(`${NURSES}, teachers: { query: teachers, size: 5 }`);
    await runOnce(world);
    await world.rows("UPDATE person_data.person_search SET _synced_at = '2020-01-01'");
    const [{ service_pid: pid = null } = {}] = await world.rows(
      "SELECT service_pid FROM person_data.person_search_result JOIN person_data.person_search USING (search_id) WHERE search_name = 'nurses' AND position = 2",
    );
    await erase(world, { pids: [pid ?? ""] });
    const people = "SELECT count(*) FROM person_data.person_search_result";
    expect(await world.value(people)).toBe("11");
    // Readers of changes read the search, and with it what is left of its people.
    const changed = "SELECT search_name FROM person_data.person_search WHERE _synced_at > '2020-01-01'";
    expect(await world.rows(changed)).toEqual([{ search_name: "nurses" }]);
    await runOnce(world, { fullRefresh: true });
    expect(await world.value(people)).toBe("11");
  });
});
