import { expect, test } from "vitest";
import { FixConfigurationError, JobLockedError } from "../../../src/errors.ts";
import {
  givenCheckpoint,
  moveCheckpoints,
  readCheckpointReport,
  streamsOf,
} from "../../../src/jobs/report/checkpoints.ts";
import { holdJob } from "../../../src/jobs/hold-job.ts";
import { findJob } from "../../../src/jobs/job-selection.ts";
import { readStatus } from "../../../src/jobs/report/status.ts";
import { configOf, jobOf, startWorld, type World } from "../world.ts";

const SEGMENT = "11111111-1111-4111-8111-111111111111";
const OTHER = "22222222-2222-4222-8222-222222222222";

const JOBS = configOf(`
  push: { type: segment_push, name: Everybody, sql: "select '' as service_pid where false" }
  members: { type: segment_members, segments: [{ job: push }, { id: ${SEGMENT} }] }
  deaths: { type: death_signals, enabled: false, segments: [{ id: ${SEGMENT} }] }
  searches: { type: search_usage }
  usage: { type: endpoint_usage, bucketing_size: week, timezone: Europe/Berlin, start_date: 2026-01-01 }
  resolve: { type: resolve, input: customers }`);

/** A migrated warehouse after a run of these jobs. */
async function startJobs(jobs: readonly string[]): Promise<World> {
  const world = await startWorld({ rows: 40, people: 2000, config: JOBS });
  await world.control("/segments", { segment_id: SEGMENT, name: "stated", members: 30 });
  await world.warehouse.migrate();
  const report = jobs.length === 0 ? null : await world.run({ jobs });
  expect(report?.status ?? "succeeded").toBe("succeeded");
  return world;
}

async function given(world: World, name: string, cursor: unknown, stream?: string) {
  const services = await world.services();
  const job = findJob(services.config, name);
  const [first = ""] = await streamsOf(services, job);
  return givenCheckpoint(services, job, stream ?? first, cursor);
}

/** Problems of a cursor: the code, then each problem, or the whole message if there is none. */
async function refusalOf(...args: Parameters<typeof given>): Promise<readonly string[]> {
  try {
    return [`taken: ${JSON.stringify(await given(...args))}`];
  } catch (error) {
    if (!(error instanceof FixConfigurationError)) throw error;
    const { code, message, problems } = error;
    return [code, ...(problems.length === 0 ? [message] : problems.map((p) => `${p.path} ${p.message}`))];
  }
}

async function store(world: World, job: string, stream: string, cursor: object): Promise<void> {
  await world.rows(
    `INSERT INTO person_data_ops.checkpoint (job, stream, cursor, updated_at, run_id, _synced_at)
     VALUES ('${job}', '${stream}', '${JSON.stringify(cursor)}', now(), 'by hand', now())
     ON CONFLICT (job, stream) DO UPDATE SET cursor = excluded.cursor`,
  );
}

const AT = "2026-01-01T00:00:00Z";

test("refuses a cursor from which a job can't resume, and reports each mistake; times of a service whose clock is ahead can be moved back, and restored", async () => {
  const world = await startJobs([]);
  const instant = "must be an instant with a time zone, such as 2026-11-21T04:00:00Z";
  const wrong: readonly (readonly [string, unknown, readonly string[]])[] = [
    ["push", { read_at: null }, ["segment_id must be the UUID of a segment"]],
    ["push", { segment_id: "x" }, ["segment_id must be the UUID of a segment"]],
    ["push", { segment_id: SEGMENT, read_at: "2026-02-30T00:00:00Z" }, [`read_at ${instant}`]],
    ["push", { segment_id: SEGMENT, size: -1 }, ["size must be a count: a whole number, 0 or more"]],
    ["members", { swept_at: "5" }, [`swept_at ${instant}`]],
    ["members", { swept_at: "2026-01-01T00:00:00" }, [`swept_at ${instant}`]],
    ["members", { swept_at: "2999-01-01T00:00:00Z" }, ["swept_at is in the future"]],
    ["members", { swept: AT }, ["swept is not a key of the cursor; valid keys: swept_at, suppressed"]],
    ["members", { suppressed: -1 }, ["suppressed must be a count: a whole number, 0 or more"]],
    ["deaths", {}, [`checked_at ${instant}`]],
    ["searches", { next: "yesterday" }, ["next must be a day such as 2026-11-18"]],
    ["usage", { next: "2026-11-18" }, ["from must be a day such as 2026-11-18"]],
  ];
  for (const [job, cursor, problems] of wrong) {
    const stream = job === "members" ? SEGMENT : undefined;
    expect([job, cursor, await refusalOf(world, job, cursor, stream)]).toEqual([
      job,
      cursor,
      ["bad_checkpoint", ...problems],
    ]);
  }
  for (const cursor of [5, [], "abc"]) {
    const [code, message] = await refusalOf(world, "searches", cursor);
    expect([code, message]).toEqual([
      "bad_checkpoint",
      expect.stringMatching(
        /^A cursor is a JSON object.*Nothing was changed\..*looks like \{"next":"2026-11-18"\}/u,
      ),
    ]);
  }
  await store(world, "members", SEGMENT, { swept_at: "2099-05-01T00:00:00Z" });
  for (const swept of ["2099-05-01T00:00:00Z", "2098-01-01T00:00:00Z"]) {
    expect((await given(world, "members", { swept_at: swept }, SEGMENT)).cursor).toMatchObject({
      swept_at: swept,
    });
  }
  expect(await refusalOf(world, "members", { swept_at: "2099-05-03T00:00:00Z" }, SEGMENT)).toHaveLength(2);
});

test("refuses a stream that a job doesn't use, and names those that it uses", async () => {
  const world = await startJobs(["push"]);
  const made = await world.value("SELECT cursor->>'segment_id' FROM person_data_ops.checkpoint");
  const cases = [
    ["push", "Segment", "it has segment."],
    ["members", OTHER, `it has ${made}, ${SEGMENT}.`],
    ["deaths", "segment", `it has ${SEGMENT}.`],
    ["searches", "days", "it has history."],
    ["usage", "day UTC", "it has week Europe/Berlin."],
  ] as const;
  for (const [job, stream, end] of cases) {
    const [code, message] = await refusalOf(world, job, {}, stream);
    expect([job, code, message]).toEqual([
      job,
      "bad_checkpoint",
      expect.stringContaining(`${end} Nothing was changed.`),
    ]);
  }
});

test("keeps stored keys that aren't named", async () => {
  const world = await startJobs(["push", "members"]);
  const stored = async (job: string, stream: string) => {
    const { checkpoints } = await readCheckpointReport(
      world.warehouse.db,
      findJob(await world.config(), job),
    );
    return checkpoints.find((checkpoint) => checkpoint.stream === stream)?.cursor;
  };
  const push = await stored("push", "segment");
  expect(push).toEqual({
    name: "Everybody",
    segment_id: expect.any(String),
    read_at: expect.any(String),
    size: expect.any(Number),
  });
  expect((await given(world, "push", { read_at: null })).cursor).toEqual({ ...Object(push), read_at: null });
  const members = await stored("members", SEGMENT);
  expect(members).toMatchObject({ suppressed: 0 });
  expect((await given(world, "members", { swept_at: AT }, SEGMENT)).cursor).toEqual({
    ...Object(members),
    swept_at: AT,
  });
  // A damaged one can be fixed.
  await store(world, "push", "segment", { segment_id: SEGMENT, read_at: 5, other: 1 });
  expect((await given(world, "push", { read_at: null })).cursor).toEqual({
    segment_id: SEGMENT,
    read_at: null,
    size: null,
  });
});

test("a push whose stored checkpoint can't be read fails before it creates another segment, as do its readers", async () => {
  const world = await startJobs([]);
  await store(world, "push", "segment", { read_at: null });
  const report = await world.run({ jobs: ["push"] });
  expect(jobOf(report, "push")).toMatchObject({
    status: "failed",
    requests: 0,
    error: { code: "bad_checkpoint" },
  });
  expect(jobOf(report, "push").error?.message).toContain("segment_id must be the UUID of a segment");
  const members = jobOf(await world.run({ jobs: ["members"] }), "members");
  expect([members.status, members.error?.code, members.records_received]).toEqual([
    "failed",
    "bad_checkpoint",
    30,
  ]);
  // It is shown, so that users can fix it.
  const shown = (await readStatus(await world.services())).jobs.find(({ job }) => job === "push");
  expect(shown).toMatchObject({ checkpoints: [{ stream: "segment", cursor: { read_at: null } }] });
  const again = jobOf(await world.run({ jobs: ["push"], fullRefresh: true }), "push");
  expect([again.error?.code, again.requests]).toEqual(["bad_checkpoint", 0]);
});

test("an unreadable checkpoint that only saves reading counts as none: all is read, and it is fixed", async () => {
  const world = await startJobs(["push", "members"]);
  await store(world, "members", SEGMENT, { swept_at: "last week", suppressed: "5" });
  expect(jobOf(await world.run({ jobs: ["members"] }), "members").status).toBe("succeeded");
  expect(
    await world.value(
      `SELECT cursor->>'swept_at' LIKE '20%' FROM person_data_ops.checkpoint WHERE stream = '${SEGMENT}'`,
    ),
  ).toBe("t");
});

test("a lookup has none: what earlier versions stored is neither shown nor used, and none can be set", async () => {
  const world = await startJobs([]);
  await store(world, "resolve", "customers", { value: "2999-01-01T00:00:00Z", full_at: AT, stands_for: "" });
  const { checkpoints, meaning } = await readCheckpointReport(
    world.warehouse.db,
    findJob(await world.config(), "resolve"),
  );
  expect([checkpoints, meaning]).toEqual([[], "every run compares a fingerprint of each input row"]);
  const shown = (await readStatus(await world.services())).jobs.find(({ job }) => job === "resolve");
  expect(shown?.checkpoints).toEqual([]);
  expect(jobOf(await world.run({ jobs: ["resolve"] }), "resolve")).toMatchObject({
    status: "succeeded",
    records_unchanged: 0,
  });
  expect(await refusalOf(world, "resolve", { value: AT })).toEqual([
    "bad_checkpoint",
    "resolve has no checkpoint: every run compares a fingerprint of each input row. Nothing was changed.",
  ]);
});

test("refuses to change checkpoints of a running job, and reports the lock's holder", async () => {
  const world = await startJobs([]);
  const services = await world.services();
  const job = findJob(services.config, "searches");
  const wanted = { runId: "running", job: job.name, jobType: job.type, shard: "0/1" };
  const hold = await holdJob(services, wanted, { waitMs: 0 });
  const moves = [{ stream: "history", cursor: { next: "2026-01-01" } }];
  const move = () => moveCheckpoints(services, job, "by hand", async () => moves);
  const error: unknown = await move().catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(JobLockedError);
  expect(String(error)).toMatch(
    /Another process is running searches: run running .*Its checkpoints were not changed/u,
  );
  expect(String(error)).not.toContain("--wait");
  const stored = () => readCheckpointReport(world.warehouse.db, job);
  expect((await stored()).checkpoints).toEqual([]);
  if (hold.kind === "held") await hold.held.release();
  await move();
  expect((await stored()).checkpoints).toMatchObject([{ ...moves[0], run_id: "by hand" }]);
});

test("another segment ID forgets what is known about the one before", async () => {
  const text = configOf("\n  audiences: { type: audience_search, searches: { nurses: { query: nurses } } }");
  const world = await startWorld({ rows: 0, people: 2000, config: text });
  expect((await world.run()).status).toBe("succeeded");
  const cursor = { search: "nurses", submitted_at: expect.any(String), stored_segment_id: null };
  expect(await given(world, "audiences", { segment_id: OTHER })).toMatchObject({
    cursor: { ...cursor, segment_id: OTHER, status: null, pages: null, unlock: null, is_pending: false },
  });
  expect(await given(world, "audiences", { pages: null })).toMatchObject({
    cursor: { ...cursor, status: "completed" },
  });
});
