import { expect, test } from "vitest";
import { startRecordingProxy } from "../lookup/recording-proxy.ts";
import { configOf, jobOf, seenDuring, startWorld, type World } from "../world.ts";

const FIRST = "11111111-1111-4111-8111-111111111111";
const SECOND = "22222222-2222-4222-8222-222222222222";

const config = configOf(`
  deaths: { type: death_signals, segments: [{ id: ${FIRST}, name: VIP }, { id: ${SECOND} }] }`);

/** Two segments that share most members; the population's own deaths are too many to write down. */
async function startDeaths(options: { members?: number } = {}): Promise<World> {
  const world = await startWorld({ rows: 0, people: 2000, config });
  const { members = 100 } = options;
  await world.control("/segments", { segment_id: FIRST, name: "first", members });
  await world.control("/segments", { segment_id: SECOND, name: "second", members, first_person: 50 });
  return world;
}

async function pidOf(world: World, n: number): Promise<string> {
  // Answer of the sandbox's controls.
  const { members } = (await world.control(`/segments/${FIRST}/members?offset=${n}&limit=1`)) as {
    members: { service_pid: string }[];
  };
  return members[0]?.service_pid ?? "";
}

const presence = `SELECT segment_id, obituary_id, is_present, removed_seen_at IS NULL AS stays
  FROM person_data.segment_death_signal WHERE obituary_id LIKE 'stated%' ORDER BY 1, 2`;

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

test("signals are kept with every key of their metadata, once, and per segment that shows them", async () => {
  const world = await startDeaths();
  await world.control("/deaths", { set: [signal(await pidOf(world, 60), { novelty: 7 })] });
  const report = jobOf(await world.run(), "deaths");
  expect(report).toMatchObject({ status: "succeeded", requests: 2, records_read: 0 });
  const [row] = await world.rows(
    `SELECT s.*, _synced_at = (SELECT max(_synced_at) FROM person_data.death_signal) AS is_new
     FROM person_data.death_signal AS s WHERE obituary_id = 'stated-1'`,
  );
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
  expect(await world.rows(presence)).toEqual(
    [FIRST, SECOND].map((segment) => ({
      segment_id: segment,
      obituary_id: "stated-1",
      is_present: "t",
      stays: "t",
    })),
  );
  expect(
    await world.rows("SELECT endpoint, http_status FROM person_data_ops.api_call ORDER BY started_at"),
  ).toEqual([1, 2].map(() => ({ endpoint: "GET /v2/segments/signals/deaths", http_status: "200" })));
});

test("a run without news writes no row; later corrections are stored", async () => {
  const world = await startDeaths();
  const pid = await pidOf(world, 60);
  await world.control("/deaths", { set: [signal(pid)] });
  await world.run();
  expect(jobOf(await world.run(), "deaths")).toMatchObject({ status: "succeeded", rows_written: 0 });
  await world.control("/deaths", { set: [signal(pid, { date_of_death: "2026-10-01" })] });
  expect(jobOf(await world.run(), "deaths")).toMatchObject({ status: "succeeded", rows_written: 1 });
  expect(
    await world.rows(
      `SELECT date_of_death, _synced_at > first_seen FROM person_data.death_signal,
         LATERAL (SELECT min(_synced_at) AS first_seen FROM person_data.segment_death_signal) AS s
       WHERE obituary_id = 'stated-1'`,
    ),
  ).toEqual([{ date_of_death: "2026-10-01", "?column?": "t" }]);
});

test("signals without an id are rejected once, with a reason and without values; the others are kept", async () => {
  const world = await startDeaths();
  const pid = await pidOf(world, 60);
  const more = [
    { ...signal(pid), obituary_id: null },
    { ...signal(" "), obituary_id: "stated-2" },
    { ...signal(pid), obituary_id: 77 },
    "no signal",
  ];
  const { url, answers } = await startRecordingProxy(world.sandbox.url, (path, body) =>
    path.includes(FIRST)
      ? body.replace('"results":[', `"results":[${more.map((m) => JSON.stringify(m)).join()},`)
      : body,
  );
  world.serviceUrl = url;
  await world.control("/deaths", { set: [signal(pid)] });
  expect(jobOf(await world.run(), "deaths")).toMatchObject({ status: "succeeded", records_rejected: 3 });
  const rejects = await world.rows(
    `SELECT source, source_key, stage, code, details FROM person_data.reject ORDER BY source_key`,
  );
  expect(rejects).toEqual(
    [
      { source_key: pid, details: '{"missing": ["obituary_id"]}' },
      { source_key: "stated-2", details: '{"missing": ["service_pid"]}' },
      { source_key: null, details: '{"missing": ["obituary_id", "service_pid"]}' },
    ].map((one) => ({ source: FIRST, stage: "answer", code: "missing_id", ...one })),
  );
  expect(
    await world.rows(
      "SELECT obituary_id FROM person_data.death_signal WHERE obituary_id IN ('77', 'stated-1') ORDER BY 1",
    ),
  ).toEqual([{ obituary_id: "77" }, { obituary_id: "stated-1" }]);
  const first = answers.find(({ path }) => path.includes(FIRST));
  const { api_request_id: asked } = JSON.parse(first?.response ?? "{}") as { api_request_id: string };
  expect(jobOf(await world.run(), "deaths")).toMatchObject({ rows_written: 0, records_rejected: 3 });
  // run_id is that of the first rejected answer.
  expect(await world.rows("SELECT api_request_id, count(*) FROM person_data.reject GROUP BY 1")).toEqual([
    { api_request_id: asked, count: "3" },
  ]);
});

test("a reject of a signal without an id is open as long as the signal is listed, even if dropped", async () => {
  const world = await startDeaths();
  const broken = { ...signal(await pidOf(world, 60)), obituary_id: null };
  let isBroken = true;
  const { url } = await startRecordingProxy(world.sandbox.url, (path, body) =>
    isBroken && path.includes(FIRST)
      ? body.replace('"results":[', `"results":[${JSON.stringify(broken)},`)
      : body,
  );
  world.serviceUrl = url;
  const open = () => world.value("SELECT count(*) FROM person_data.reject WHERE resolved_at IS NULL");
  await world.run();
  expect(await open()).toBe("1");
  await world.warehouse.dropRejects({ jobs: ["deaths"], codes: [], rows: [] });
  expect(await open()).toBe("0");
  expect(jobOf(await world.run(), "deaths")).toMatchObject({ records_rejected: 1 });
  expect(await open()).toBe("1");
  isBroken = false;
  expect(jobOf(await world.run(), "deaths")).toMatchObject({ records_rejected: 0 });
  expect(await open()).toBe("0");
  expect(await world.value("SELECT count(*) FROM person_data.reject")).toBe("1");
});

const stays = (segment: string, id: string, is: boolean) => ({
  segment_id: segment,
  obituary_id: id,
  is_present: is ? "t" : "f",
  stays: is ? "t" : "f",
});

test("an answer with an unidentifiable signal marks none as gone", async () => {
  const world = await startDeaths();
  const pid = await pidOf(world, 60);
  let isSpoilt = false;
  const { url } = await startRecordingProxy(world.sandbox.url, (path, body) =>
    isSpoilt && path.includes(FIRST) ? body.replace('"obituary_id":"stated-1"', '"obituary_id":null') : body,
  );
  world.serviceUrl = url;
  await world.control("/deaths", { set: [signal(pid), signal(pid, { obituary_id: "stated-2" })] });
  await world.run();
  await world.control("/deaths", { remove: ["stated-2"] });
  isSpoilt = true;
  expect(jobOf(await world.run(), "deaths")).toMatchObject({ status: "succeeded", records_rejected: 1 });
  expect(await world.rows(presence)).toEqual([
    stays(FIRST, "stated-1", true),
    stays(FIRST, "stated-2", true),
    stays(SECOND, "stated-1", true),
    stays(SECOND, "stated-2", false),
  ]);
  isSpoilt = false;
  await world.run();
  expect((await world.rows(presence)).map((row) => row["is_present"])).toEqual(["t", "f", "t", "f"]);
});

test.each([
  ["the legacy shape of an error", { error_message: "Internal error" }],
  ["a deprecated shape of an error", { statusCode: 500, body: { error_message: "Internal error" } }],
  ["nothing", {}],
  ["an error next to an empty list", { results: [], error: "Internal error" }],
  ["an error next to null", { results: null, code: "internal" }],
  ["a list of errors", { results: [], error: ["rebuilding"] }],
])("an answer with %s is not empty", async (_what, more) => {
  const world = await startDeaths();
  let left = 0;
  const { url } = await startRecordingProxy(world.sandbox.url, (path, body) =>
    path.includes(FIRST) && left-- > 0 ? JSON.stringify({ api_request_id: "req-1", ...more }) : body,
  );
  world.serviceUrl = url;
  await world.control("/deaths", { set: [signal(await pidOf(world, 60))] });
  await world.run();
  left = 2;
  const services = { random: () => 0 };
  expect(jobOf(await world.run({}, services), "deaths")).toMatchObject({ status: "succeeded", retries: 2 });
  left = 1_000;
  expect(jobOf(await world.run({}, services), "deaths").status).toBe("failed");
  expect(
    await world.value("SELECT count(*) FROM person_data.segment_death_signal WHERE NOT is_present"),
  ).toBe("0");
});

test.each([
  ["that all is well", { statusCode: 200, status_code: "200", code: "ok", error: "", error_message: null }],
  ["that there is no error", { error: false, code: 200 }],
])("an empty answer that states %s is empty", async (_what, more) => {
  const world = await startDeaths();
  const { url } = await startRecordingProxy(world.sandbox.url, () =>
    JSON.stringify({ api_request_id: "req-1", results: [], ...more }),
  );
  world.serviceUrl = url;
  expect(jobOf(await world.run(), "deaths")).toMatchObject({ status: "succeeded", retries: 0, requests: 2 });
});

test.each([
  ["an empty list", "[]"],
  ["null", "null"],
  ["a shortened list", JSON.stringify([signal("p-1", { obituary_id: "other" })])],
])(
  "an answer with %s hides no signal, and is reported with their number; --full-refresh accepts it",
  async (_what, results) => {
    const world = await startDeaths();
    let isEmpty = false;
    const { url } = await startRecordingProxy(world.sandbox.url, (path, body) =>
      isEmpty && path.includes(FIRST)
        ? `{"api_request_id": "req-1", "results": ${results}, "error": null}`
        : body,
    );
    world.serviceUrl = url;
    await world.control("/deaths", { set: [signal(await pidOf(world, 60))] });
    await world.run();
    const missing = Number(
      await world.value(
        `SELECT count(*) FROM person_data.segment_death_signal WHERE segment_id = '${FIRST}'`,
      ),
    );
    isEmpty = true;
    expect(jobOf(await world.run(), "deaths").status).toBe("succeeded");
    expect(await world.rows(presence)).toEqual([
      stays(FIRST, "stated-1", true),
      stays(SECOND, "stated-1", true),
    ]);
    const reports = world.logged.filter(({ event }) => event === "too_many_signals_missing");
    expect(reports.map(({ fields }) => fields)).toEqual([{ job: "deaths", segment_id: FIRST, missing }]);
    await world.run({ fullRefresh: true });
    expect(await world.rows(presence)).toEqual([
      stays(FIRST, "stated-1", false),
      stays(SECOND, "stated-1", true),
    ]);
  },
);

test("metadata of an unexpected type is reported by its whole path", async () => {
  const world = await startDeaths();
  const pid = await pidOf(world, 10);
  await world.control("/deaths", {
    set: [
      signal(pid, { signal_metadata: { confidence_score: "very", constructor: "a builder" } }),
      signal(pid, { obituary_id: "stated-2", signal_metadata: ["a list"] }),
    ],
  });
  await world.run();
  expect(
    await world.rows("SELECT path, kind, observed_type FROM person_data_ops.schema_drift ORDER BY path"),
  ).toEqual([
    { path: "signal_metadata", kind: "unexpected_type", observed_type: "array" },
    { path: "signal_metadata.confidence_score", kind: "unexpected_type", observed_type: "string" },
  ]);
  expect(
    await world.value(
      "SELECT signal_metadata::text FROM person_data.death_signal WHERE obituary_id = 'stated-2'",
    ),
  ).toBe('["a list"]');
});

test("signals that disappear are marked where they did, and unmarked when they come back", async () => {
  const world = await startDeaths();
  const pid = await pidOf(world, 10); // a member of the first segment only
  const [own, shared] = [signal(pid), signal(await pidOf(world, 60), { obituary_id: "stated-2" })];
  await world.control("/deaths", { set: [own, shared] });
  await world.run();
  await world.control("/deaths", { remove: ["stated-1"] });
  await world.run();
  expect(await world.rows(presence)).toEqual([
    stays(FIRST, "stated-1", false),
    stays(FIRST, "stated-2", true),
    stays(SECOND, "stated-2", true),
  ]);
  await world.control("/deaths", { set: [own] });
  await world.run();
  expect((await world.rows(presence)).map((row) => row["is_present"])).toEqual(["t", "t", "t"]);
});

test("with --full-refresh readers never miss a signal that stays", async () => {
  const world = await startDeaths();
  const pids = await Promise.all(Array.from({ length: 30 }, (_, i) => pidOf(world, 55 + i)));
  const stated = pids.map((pid, i) => signal(pid, { obituary_id: `stated-${i}` }));
  await world.control("/deaths", { set: stated });
  await world.run();
  await world.control("/deaths", { remove: ["stated-3", "stated-17"] });
  const shown = `SELECT count(*) FILTER (WHERE is_present AND NOT obituary_id IN ('stated-3', 'stated-17')) AS shown,
    (SELECT count(*) FROM person_data.death_signal WHERE obituary_id LIKE 'stated%') AS kept
    FROM person_data.segment_death_signal WHERE obituary_id LIKE 'stated%'`;
  const { seen, asked } = await seenDuring(world, shown, async () => {
    const report = await world.run({ fullRefresh: true });
    // Two segments, each with two signals fewer.
    expect(jobOf(report, "deaths")).toMatchObject({ status: "succeeded", rows_written: 4 });
  });
  expect([...seen]).toEqual(["56 30"]);
  expect(asked).toBeGreaterThan(3);
  expect((await world.rows(presence)).filter((row) => row["is_present"] === "f")).toHaveLength(4);
});

test("a deleted segment is reported, not treated as empty, and the others are still read", async () => {
  const world = await startDeaths();
  await world.control("/deaths", { set: [signal(await pidOf(world, 60))] });
  await world.run();
  const before = await world.rows("SELECT * FROM person_data.segment_death_signal ORDER BY 1, 2, 3");
  await world.control("/delete_segment", { segment_id: FIRST });
  const report = jobOf(await world.run(), "deaths");
  expect(report.status).toBe("failed");
  expect(report.error?.code).toBe("segment_gone");
  expect(report.error?.message).toMatch(new RegExp(`no segment ${FIRST} \\(404\\)`));
  expect(report.requests).toBe(2);
  expect(await world.rows("SELECT * FROM person_data.segment_death_signal ORDER BY 1, 2, 3")).toEqual(before);
});

test("free calls are retried after faults, and every attempt is in the ledger", async () => {
  const world = await startDeaths();
  await world.control("/faults", { faults: "500@deaths#1,cut_body@deaths#2,429=0@deaths#3" });
  const services = { random: () => 0 };
  const report = jobOf(await world.run({}, services), "deaths");
  expect(report).toMatchObject({ status: "succeeded", requests: 5, retries: 3 });
  expect(await world.value("SELECT count(*) FROM person_data_ops.api_call")).toBe("5");
  expect(await world.value("SELECT requests || ' ' || retries FROM person_data_ops.sync_run")).toBe("5 3");
});
