import { expect, test } from "vitest";
import { membersAt } from "../../support/sandbox-control.ts";
import { recordAnswers } from "../lookup/recording-proxy.ts";
import { configOf, jobOf, startWorld, type World } from "../world.ts";

const FIRST = "11111111-1111-4111-8111-111111111111";
const SECOND = "22222222-2222-4222-8222-222222222222";

/** Two segments that share the persons 50 to 99; the population's own deaths are too many to write down. */
async function startDeaths() {
  const config = configOf(`
  deaths: { type: death_signals, segments: [{ id: ${FIRST}, name: VIP }, { id: ${SECOND} }] }`);
  const world = await startWorld({ rows: 0, people: 2000, config });
  await world.control("/segments", { segment_id: FIRST, name: "first", members: 100 });
  await world.control("/segments", { segment_id: SECOND, name: "second", members: 100, first_person: 50 });
  const members = await membersAt(world.sandbox.url, FIRST);
  return {
    world,
    pidOf: (n: number) => members[n]?.service_pid ?? "",
    run: async (...run: Parameters<World["run"]>) =>
      jobOf(await world.run(run[0], { random: () => 0, ...run[1] }), "deaths"),
    state: (...set: readonly object[]) => world.control("/deaths", { set }),
    unstate: (...remove: readonly string[]) => world.control("/deaths", { remove }),
    /** Changes the answers about the first segment while `is.on`. */
    answer: async (change: (body: string) => string) => {
      const is = { on: true };
      const answers = await recordAnswers(world, (path, body) =>
        is.on && path.includes(FIRST) ? change(body) : body,
      );
      return Object.assign(is, { answers });
    },
    /** Stated signals by segment, `!` for those that are gone. */
    shown: async () => {
      const rows = await world.rows(
        `SELECT segment_id, obituary_id, is_present, removed_seen_at IS NULL AS stays FROM person_data.segment_death_signal
         WHERE obituary_id LIKE 'stated%' ORDER BY 1, 2`,
      );
      return rows.map(({ segment_id: segment, obituary_id: id, is_present: is, stays }) => {
        expect(stays).toBe(is);
        return `${segment === FIRST ? "first" : "second"} ${id}${is === "t" ? "" : "!"}`;
      });
    },
  };
}

const signal = (pid: string, more: object = {}) => ({
  service_pid: pid,
  obituary_id: "stated-1",
  date_of_death: null,
  publication_last_update_date: "2026-10-02",
  first_observed_at: "2026-10-03T04:05:06.123456+00:00",
  signal_metadata: {
    source: "obituary_database",
    confidence_score: 0.875,
    survivors: ["a wife", "two sons"],
    age_at_death: 81,
    parish: { name: "St. Mary", "odd key": [1, 2] },
  },
  ...more,
});

test("signals are kept with every key of their metadata, once, and per segment that shows them; corrections are stored", async () => {
  const { world, pidOf, run, state, shown } = await startDeaths();
  await state(signal(pidOf(60), { novelty: 7 }));
  expect(await run()).toMatchObject({ status: "succeeded", requests: 2, records_read: 0 });
  const [row] = await world.rows("SELECT * FROM person_data.death_signal WHERE obituary_id = 'stated-1'");
  expect(row).toMatchObject({
    date_of_death: null,
    publication_last_update_date: "2026-10-02",
    first_observed_at: "2026-10-03 04:05:06.123456+00",
    signal_source: "obituary_database",
    signal_confidence_score: "0.875",
    signal_age_at_death: "81",
    signal_city: null,
  });
  expect(JSON.parse(row?.["signal_survivors"] ?? "")).toEqual(["a wife", "two sons"]);
  expect(JSON.parse(row?.["signal_metadata"] ?? "")).toEqual(signal("").signal_metadata);
  expect(JSON.parse(row?.["_extra"] ?? "")).toEqual({ novelty: 7 });
  expect(await shown()).toEqual(["first stated-1", "second stated-1"]);
  expect(await run()).toMatchObject({ status: "succeeded", rows_written: 0 });
  await state(signal(pidOf(60), { date_of_death: "2026-10-01", novelty: 7 }));
  expect(await run()).toMatchObject({ status: "succeeded", rows_written: 1 });
  const corrected = "SELECT date_of_death FROM person_data.death_signal WHERE obituary_id = 'stated-1'";
  expect(await world.value(corrected)).toBe("2026-10-01");
});

test("signals without an id are rejected, with a reason and without values, as long as they are listed", async () => {
  const { world, pidOf, run, state, answer } = await startDeaths();
  const pid = pidOf(60);
  const more = [
    { ...signal(pid), obituary_id: null },
    { ...signal(" "), obituary_id: "stated-2" },
    { ...signal(pid), obituary_id: 77 },
    "no signal",
  ].map((one) => JSON.stringify(one));
  const broken = await answer((body) => body.replace('"results":[', `"results":[${more.join()},`));
  await state(signal(pid));
  expect(await run()).toMatchObject({ status: "succeeded", records_rejected: 3 });
  const rejects =
    "SELECT source, source_key, stage, code, details FROM person_data.reject ORDER BY source_key";
  expect(await world.rows(rejects)).toEqual(
    [
      { source_key: pid, details: '{"missing": ["obituary_id"]}' },
      { source_key: "stated-2", details: '{"missing": ["service_pid"]}' },
      { source_key: null, details: '{"missing": ["obituary_id", "service_pid"]}' },
    ].map((one) => ({ source: FIRST, stage: "answer", code: "missing_id", ...one })),
  );
  const kept = `SELECT string_agg(obituary_id, ' ' ORDER BY 1) FROM person_data.death_signal
    WHERE obituary_id IN ('77', 'stated-1')`;
  expect(await world.value(kept)).toBe("77 stated-1");
  const first = broken.answers.find(({ path }) => path.includes(FIRST));
  const { api_request_id: asked } = JSON.parse(first?.response ?? "{}") as { api_request_id: string };
  expect(await run()).toMatchObject({ rows_written: 0, records_rejected: 3 });
  // The ID is that of the first rejected answer.
  const open = () =>
    world.value(
      `SELECT count(*) FROM person_data.reject WHERE api_request_id = '${asked}' AND resolved_at IS NULL`,
    );
  expect(await open()).toBe("3");
  await world.warehouse.dropRejects({ jobs: ["deaths"], codes: [], rows: [] });
  expect(await open()).toBe("0");
  await run();
  expect(await open()).toBe("3");
  broken.on = false;
  expect(await run()).toMatchObject({ records_rejected: 0 });
  expect(await open()).toBe("0");
});

test("signals that disappear are marked where they did, unless the answer has an unidentifiable one, and unmarked when they come back", async () => {
  const { pidOf, run, state, unstate, answer, shown } = await startDeaths();
  const pid = pidOf(60);
  const spoilt = await answer((body) => body.replace('"obituary_id":"stated-1"', '"obituary_id":null'));
  spoilt.on = false;
  const second = signal(pid, { obituary_id: "stated-2" });
  await state(signal(pid), second);
  await run();
  await unstate("stated-2");
  spoilt.on = true;
  expect(await run()).toMatchObject({ status: "succeeded", records_rejected: 1 });
  expect(await shown()).toEqual(["first stated-1", "first stated-2", "second stated-1", "second stated-2!"]);
  spoilt.on = false;
  await run();
  expect(await shown()).toEqual(["first stated-1", "first stated-2!", "second stated-1", "second stated-2!"]);
  await state(second);
  await run();
  expect(await shown()).toEqual(["first stated-1", "first stated-2", "second stated-1", "second stated-2"]);
});

test("an answer that states an error, or nothing, is not empty; one that states that all is well is", async () => {
  const { world, pidOf, run, state, answer } = await startDeaths();
  let says: object = {};
  const odd = await answer(() => JSON.stringify({ api_request_id: "req-1", ...says }));
  odd.on = false;
  await state(signal(pidOf(60)));
  await run();
  odd.on = true;
  for (says of [
    { error_message: "Internal error" },
    { statusCode: 500, body: { error_message: "Internal error" } },
    {},
    { results: [], error: "Internal error" },
    { results: null, code: "internal" },
    { results: [], error: ["rebuilding"] },
  ])
    expect([says, (await run()).status]).toEqual([says, "failed"]);
  const gone = "SELECT count(*) FROM person_data.segment_death_signal WHERE NOT is_present";
  expect(await world.value(gone)).toBe("0");
  for (const more of [
    { statusCode: 200, status_code: "200", code: "ok", error: "", error_message: null },
    { error: false, code: 200 },
  ]) {
    says = { results: [], ...more };
    expect(await run()).toMatchObject({ status: "succeeded", retries: 0, requests: 2 });
  }
});

test("an answer with an empty, missing or shortened list hides no signal, and is reported with their number; --full-refresh accepts it", async () => {
  const { world, pidOf, run, state, answer, shown } = await startDeaths();
  let results = "";
  const empty = await answer(() => `{"api_request_id": "req-1", "results": ${results}, "error": null}`);
  await state(signal(pidOf(60)));
  for (results of ["[]", "null", JSON.stringify([signal("p-1", { obituary_id: "other" })])]) {
    empty.on = false;
    await run();
    const all = `SELECT count(*) FROM person_data.segment_death_signal WHERE segment_id = '${FIRST}' AND is_present`;
    const missing = Number(await world.value(all));
    empty.on = true;
    world.logged.length = 0;
    expect((await run()).status).toBe("succeeded");
    expect(await shown()).toEqual(["first stated-1", "second stated-1"]);
    const reports = world.logged.filter(({ event }) => event === "too_many_signals_missing");
    expect(reports.map(({ fields }) => fields)).toEqual([{ job: "deaths", segment_id: FIRST, missing }]);
    await run({ fullRefresh: true });
    expect(await shown()).toEqual(["first stated-1!", "second stated-1"]);
  }
});

test("metadata of an unexpected type is reported by its whole path", async () => {
  const { world, pidOf, run, state } = await startDeaths();
  await state(
    signal(pidOf(10), { signal_metadata: { confidence_score: "very", constructor: "a builder" } }),
    signal(pidOf(10), { obituary_id: "stated-2", signal_metadata: ["a list"] }),
  );
  await run();
  const drift =
    "SELECT path || ' ' || kind || ' ' || observed_type AS drift FROM person_data_ops.schema_drift ORDER BY 1";
  expect(await world.rows(drift)).toEqual([
    { drift: "signal_metadata unexpected_type array" },
    { drift: "signal_metadata.confidence_score unexpected_type string" },
  ]);
  const metadata =
    "SELECT signal_metadata::text FROM person_data.death_signal WHERE obituary_id = 'stated-2'";
  expect(await world.value(metadata)).toBe('["a list"]');
});

test("a deleted segment is reported, not treated as empty, and the others are still read", async () => {
  const { world, pidOf, run, state, shown } = await startDeaths();
  await state(signal(pidOf(60)));
  await run();
  await world.control("/delete_segment", { segment_id: FIRST });
  const report = await run();
  expect(report).toMatchObject({ status: "failed", requests: 2, error: { code: "segment_gone" } });
  expect(report.error?.message).toContain(`no segment ${FIRST} (404)`);
  expect(await shown()).toEqual(["first stated-1", "second stated-1"]);
});
