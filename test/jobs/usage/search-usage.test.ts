import { describe, expect, test } from "vitest";
import { readStatus } from "../../../src/jobs/report/status.ts";
import { goTo, runAtItsTime, sandboxClock, statedDays, storedDays } from "./usage-truth.ts";
import { recordAnswers } from "../lookup/recording-proxy.ts";
import { configOf, startWorld, type World } from "../world.ts";

const config = configOf(`
  searches: { type: search_usage }`);

async function startSearches(day: string): Promise<World> {
  const world = await startWorld({ rows: 0, people: 1000, config });
  await goTo(world, day);
  return world;
}
const runSearches = (world: World) => runAtItsTime(world, "searches");

const gapsOf = (world: World) =>
  world.rows(
    "SELECT job, gap_start::date::text, gap_end::date::text FROM person_data_ops.sync_gap ORDER BY noticed_at",
  );

describe("the history of person search", () => {
  test("is read for ninety days at first, and equals the service's", async () => {
    const world = await startSearches("2026-06-10");
    expect(await runSearches(world)).toMatchObject({
      status: "succeeded",
      requests: 1,
      records_received: 90,
      rows_written: 91,
    });
    const days = await storedDays(world);
    expect(days).toEqual(await statedDays(world));
    expect([days.length, days[0]?.["period_start"], days.at(-1)?.["period_start"]]).toEqual([
      90,
      "2026-03-13",
      "2026-06-10",
    ]);
    expect(
      await world.rows(
        `SELECT is_final, count(*) AS days, max(period_start)::text AS last, count(DISTINCT org_id) AS organizations
         FROM person_data_ops.person_search_usage_daily GROUP BY 1 ORDER BY 1`,
      ),
    ).toEqual([
      { is_final: "f", days: "4", last: "2026-06-10", organizations: "1" },
      { is_final: "t", days: "86", last: "2026-06-06", organizations: "1" },
    ]);
    expect(await world.value("SELECT cursor::text FROM person_data_ops.checkpoint")).toBe(
      '{"next": "2026-06-07"}',
    );
    const quota = `SELECT daily_record_limit || ' ' || (current_day_remaining = daily_record_limit - current_day_records_delivered)
      FROM person_data_ops.person_search_quota`;
    expect(await world.value(quota)).toBe("10000 true");
  });

  test("has a gap after more than ninety days without a run, from the first day that was not final", async () => {
    const world = await startSearches("2026-03-01");
    await runSearches(world);
    await goTo(world, "2026-07-01");
    await runSearches(world);
    await runSearches(world);
    expect(await gapsOf(world)).toEqual([
      { job: "searches", gap_start: "2026-02-26", gap_end: "2026-04-03" },
    ]);
    expect(world.logged.filter(({ event }) => event === "usage_no_longer_readable")).toHaveLength(1);
    const { gaps, quotas } = await readStatus(await world.services());
    expect([gaps, quotas]).toMatchObject([
      [{ job: "searches", stream: "history", gap_start: expect.stringContaining("2026-02-26") }],
      [{ limit: 10_000 }],
    ]);
    // The last reading of those days stays, marked as not final.
    expect(
      await world.value(
        "SELECT count(*) FROM person_data_ops.person_search_usage_daily WHERE NOT is_final AND period_start < '2026-04-01'",
      ),
    ).toBe("4");
  });

  test.each([
    ["with --full-refresh", "searches", { fullRefresh: true }],
    ["after its checkpoint was reset", "searches", {}],
    ["by a job of another name", "renamed", {}],
  ])("has the same gap when it is read %s", async (how, job, request) => {
    const world = await startSearches("2026-03-01");
    await runSearches(world);
    if (how.includes("reset")) await world.rows("DELETE FROM person_data_ops.checkpoint");
    world.configure(config.replace("searches:", `${job}:`));
    await goTo(world, "2026-07-01");
    for (const clock of [await sandboxClock(world), await sandboxClock(world)])
      await world.run(request, { clock });
    expect(await gapsOf(world)).toEqual([{ job, gap_start: "2026-02-26", gap_end: "2026-04-03" }]);
  });

  test("has no gap where days are missing, which arrive with a later reading", async () => {
    const world = await startSearches("2026-06-10");
    await world.control("/faults", { faults: "missing#2" });
    await runSearches(world);
    expect((await storedDays(world)).length).toBeLessThan(90);
    await runSearches(world);
    expect(await storedDays(world)).toEqual(await statedDays(world));
    expect(await world.value("SELECT count(*) FROM person_data_ops.sync_gap")).toBe("0");
  });

  test("is not treated as empty if the answer has no history", async () => {
    const world = await startSearches("2026-06-10");
    let says: object = {};
    await recordAnswers(world, (_path, body) => {
      const { history: _history, ...rest } = JSON.parse(body) as Record<string, unknown>;
      return JSON.stringify({ ...rest, ...says });
    });
    expect((await runSearches(world)).status).toBe("failed");
    says = { history: "none" };
    expect((await runSearches(world)).status).toBe("failed");
    says = { history: [], error_message: "Internal error" };
    expect((await runSearches(world)).status).toBe("failed");
    expect(await world.value("SELECT count(*) FROM person_data_ops.person_search_quota")).toBe("0");
    for (const history of [null, []]) {
      says = { history };
      expect(await runSearches(world)).toMatchObject({ status: "succeeded", records_received: 0 });
    }
  });

  test("stores no text of the service: figures only, and no organization but a UUID", async () => {
    const world = await startSearches("2026-06-10");
    const person = { name: "Alan Turing" };
    let says: object = { last_person: person, note: "Alan Turing", credits: 12.5, "Alan Turing": 1 };
    await recordAnswers(world, (_path, body) => {
      const { history, ...rest } = JSON.parse(body) as { readonly history: readonly object[] };
      return JSON.stringify({ ...rest, history: history.map((day) => ({ ...day, ...says })), ...says });
    });
    await runSearches(world);
    for (const table of ["person_search_quota", "person_search_usage_daily"]) {
      expect(await world.value(`SELECT DISTINCT _extra::text FROM person_data_ops.${table}`)).toBe(
        '{"credits": 12.5}',
      );
    }
    says = { org_id: "alan.turing@example.com" };
    expect(await runSearches(world)).toMatchObject({ status: "failed" });
    expect(await world.value("SELECT count(DISTINCT org_id) FROM person_data_ops.person_search_quota")).toBe(
      "1",
    );
  });
});

test("days of the future by our clock are left out until their day", async () => {
  const world = await startSearches("2026-06-10");
  const clock = await sandboxClock(world);
  await goTo(world, "2026-06-12");
  await world.run({}, { clock });
  const last = async () => (await storedDays(world)).at(-1)?.["period_start"];
  expect(await last()).toBe("2026-06-10");
  await runSearches(world);
  expect(await last()).toBe("2026-06-12");
});
