import { describe, expect, test } from "vitest";
import type { Upsert } from "../../../src/load/write/upsert.ts";
import { DAY, feedCommit, SEGMENT } from "./feed-commits.ts";
import { callOf, runOf } from "./nights.ts";
import { columnOf, type GetContext, type Context, valueOf } from "./context.ts";
import type { RunRef } from "../../../src/load/runs/run-ref.ts";

async function beginFeed({ warehouse }: Context, job = "one"): Promise<RunRef> {
  const run = runOf({ job, type: "enrich" });
  await warehouse.beginRun(run);
  return run;
}

const aliases = (rows: Upsert["rows"], more: Partial<Upsert> = {}): Upsert => ({
  table: "person_pid_alias",
  columns: ["sent_service_pid", "returned_service_pid", "first_seen_at"],
  rows,
  ...more,
});

const signals = (rows: Upsert["rows"], more: Partial<Upsert> = {}): Upsert => ({
  table: "segment_death_signal",
  columns: ["segment_id", "obituary_id", "service_pid", "first_seen_at", "is_present", "removed_seen_at"],
  keep: ["first_seen_at"],
  rows,
  ...more,
});

/** A segment's size as seen by a check. */
const sized = (size: number): Upsert => ({
  table: "segment",
  columns: ["segment_id", "current_size"],
  rows: [[SEGMENT, String(size)]],
  isBookkeeping: true,
});

/** A row of `segment_sync`. */
const look = (runId: string, at: string, pending: number) => [
  SEGMENT,
  runId,
  at,
  "9",
  "8",
  "0",
  "0",
  String(pending),
];

/** Tests of stored feeds. */
export function describeFeeds(getContext: GetContext): void {
  describe("a commit of a feed", () => {
    test("writes and counts the changes, and keeps the rest", async () => {
      const context = getContext();
      const { warehouse } = context;
      const run = await beginFeed(context);
      const first = [
        ["a", "b", DAY(1)],
        ["c", "d", DAY(1)],
        ["a", "b", "2026-11-02T00:00:00.123456Z"],
      ];
      expect(await warehouse.commitFeed(feedCommit(run, { upserts: [aliases(first)] }))).toEqual([
        { given: 2, suppressed: 0, inserted: 2, updated: 0, marked: 0, unbelieved: 0 },
      ]);
      const before = await valueOf(
        context,
        "SELECT _synced_at FROM person_data.person_pid_alias WHERE sent_service_pid = 'a'",
      );
      const second = [
        ["a", "b", "2026-11-02T00:00:00.123456+00:00"],
        ["c", "d", DAY(3)],
        ["e", "f", DAY(3)],
      ];
      const again = feedCommit(run, {
        upserts: [aliases(second), aliases([["c", "d", DAY(4)]], { keep: ["first_seen_at"] })],
      });
      expect(await warehouse.commitFeed(again)).toEqual([
        { given: 3, suppressed: 0, inserted: 1, updated: 1, marked: 0, unbelieved: 0 },
        { given: 1, suppressed: 0, inserted: 0, updated: 0, marked: 0, unbelieved: 0 },
      ]);
      expect(
        await columnOf(
          context,
          "SELECT concat(sent_service_pid, ' ', first_seen_at) FROM person_data.person_pid_alias ORDER BY 1",
        ),
      ).toEqual(["a 2026-11-02 00:00:00.123456+00", "c 2026-11-03 00:00:00+00", "e 2026-11-03 00:00:00+00"]);
      expect(
        await valueOf(
          context,
          "SELECT _synced_at FROM person_data.person_pid_alias WHERE sent_service_pid = 'a'",
        ),
      ).toBe(before);
      expect(await valueOf(context, "SELECT rows_written FROM person_data_ops.sync_run")).toBe("4");
      expect(await columnOf(context, "SELECT table_name FROM person_data_state.table_load")).toEqual([
        "person_pid_alias",
      ]);
    });

    test("doesn't count rows about the reading itself, but reports the tables that they changed", async () => {
      const context = getContext();
      const run = await beginFeed(context);
      const changed = async () =>
        (await context.warehouse.tableFreshness()).find((row) => row.tableName === "segment")?.lastChangedAt;
      await context.warehouse.commitFeed(feedCommit(run, { upserts: [sized(8)] }));
      const first = await changed();
      expect(first).toMatch(/Z$/);
      await context.warehouse.commitFeed(feedCommit(run, { upserts: [sized(8)] }));
      expect(await changed()).toBe(first);
      await context.warehouse.commitFeed(feedCommit(run, { upserts: [sized(9)] }));
      expect(await changed()).not.toBe(first);
      expect(await valueOf(context, "SELECT rows_written FROM person_data_ops.sync_run")).toBe("0");
    });

    test("marks by a moment alone where a table has no flag, and unmarks what is shown again", async () => {
      const context = getContext();
      const { warehouse } = context;
      const run = await beginFeed(context);
      const [first, second] = [
        "11111111-1111-4111-8111-111111111111",
        "22222222-2222-4222-8222-222222222222",
      ];
      const rejects = (ids: readonly string[], at: string): Upsert => ({
        table: "reject",
        columns: [
          "reject_id",
          "run_id",
          "job",
          "source",
          "stage",
          "code",
          "message",
          "created_at",
          "resolved_at",
        ],
        keep: ["created_at"],
        rows: ids.map((id) => [
          id,
          run.runId,
          "one",
          "s1",
          "answer",
          "missing_id",
          "It lacks an id.",
          at,
          null,
        ]),
        missing: {
          scope: { job: "one", source: "s1", code: "missing_id" },
          flag: null,
          since: "resolved_at",
          at,
        },
      });
      const written = async (ids: readonly string[], day: number) => {
        const [result] = await warehouse.commitFeed(feedCommit(run, { upserts: [rejects(ids, DAY(day))] }));
        return [result?.inserted, result?.updated, result?.marked];
      };
      expect(await written([first, second], 1)).toEqual([2, 0, 0]);
      expect(await written([second], 2)).toEqual([0, 0, 1]);
      expect(await written([second], 3)).toEqual([0, 0, 0]);
      expect(
        await columnOf(
          context,
          "SELECT concat(created_at, ' to ', resolved_at) FROM person_data.reject ORDER BY reject_id",
        ),
      ).toEqual(["2026-11-01 00:00:00+00 to 2026-11-02 00:00:00+00", "2026-11-01 00:00:00+00 to "]);
      expect(await written([first, second], 4)).toEqual([0, 1, 0]);
    });

    test("marks rows that the feed no longer lists, within its scope", async () => {
      const context = getContext();
      const { warehouse } = context;
      const run = await beginFeed(context);
      const rows = [
        ["s1", "o1", "p1", DAY(1), "true", null],
        ["s1", "o2", "p2", DAY(1), "true", null],
        ["s2", "o3", "p3", DAY(1), "true", null],
      ];
      await warehouse.commitFeed(feedCommit(run, { upserts: [signals(rows)] }));
      const missing = {
        scope: { segment_id: "s1" },
        flag: "is_present",
        since: "removed_seen_at",
        at: DAY(2),
      };
      const night = feedCommit(run, { upserts: [signals(rows.slice(0, 1), { missing })] });
      expect(await warehouse.commitFeed(night)).toEqual([
        { given: 1, suppressed: 0, inserted: 0, updated: 0, marked: 1, unbelieved: 0 },
      ]);
      expect(await warehouse.commitFeed({ ...night, attempted: undefined })).toMatchObject([{ marked: 0 }]);
      expect(
        await columnOf(
          context,
          "SELECT concat(obituary_id, ' ', is_present, ' ', removed_seen_at) FROM person_data.segment_death_signal ORDER BY 1",
        ),
      ).toEqual(["o1 t ", "o2 f 2026-11-02 00:00:00+00", "o3 t "]);
    });

    test("whose reply was lost is made once, checkpoints and all", async () => {
      const context = getContext();
      const { warehouse } = context;
      const run = await beginFeed(context);
      const commit = feedCommit(run, {
        calls: [callOf()],
        counters: { requests: 1 },
        upserts: [aliases([["a", "b", DAY(1)]])],
        checkpoints: [
          { stream: "first", cursor: { page: 3, pids: ["a"] } },
          { stream: "second", cursor: [1.5] },
        ],
      });
      expect(await warehouse.commitFeed(commit)).toMatchObject([{ inserted: 1 }]);
      expect(await warehouse.commitFeed(commit)).toMatchObject([{ given: 1, inserted: 1 }]);
      expect(await valueOf(context, "SELECT requests FROM person_data_ops.sync_run")).toBe("1");
      await warehouse.commitFeed(feedCommit(run, { checkpoints: [{ stream: "first", cursor: null }] }));
      expect(await warehouse.readCheckpoints("one")).toEqual([
        {
          stream: "second",
          cursor: [1.5],
          updatedAt: expect.stringMatching(/^\d{4}-.*Z$/),
          runId: run.runId,
        },
      ]);
      expect(await warehouse.readCheckpoints("another")).toEqual([]);
    });

    test("takes more rows than a statement can carry", async () => {
      const context = getContext();
      const run = await beginFeed(context);
      const rows = Array.from({ length: 8000 }, (_, i) => [
        `sent-${i}-${"x".repeat(40)}`,
        `returned-${i}`,
        DAY(1),
      ]);
      const commit = feedCommit(run, { upserts: [aliases(rows), aliases([["a", "b", DAY(1)]])] });
      expect(await context.warehouse.commitFeed(commit)).toEqual([
        { given: 8000, suppressed: 0, inserted: 8000, updated: 0, marked: 0, unbelieved: 0 },
        { given: 1, suppressed: 0, inserted: 1, updated: 0, marked: 0, unbelieved: 0 },
      ]);
    });
  });

  describe("stored segments", () => {
    test("follow the newest reading of each", async () => {
      const context = getContext();
      const { warehouse } = context;
      const run = await beginFeed(context);
      expect(await warehouse.readSegments()).toEqual([]);
      const upserts = [
        {
          table: "segment",
          columns: ["segment_id", "name", "current_size"],
          rows: [
            [SEGMENT, "VIP", "9"],
            ["s-2", null, null],
          ],
        },
        {
          table: "segment_sync",
          columns: [
            "segment_id",
            "run_id",
            "observed_at",
            "current_size",
            "known_members",
            "added",
            "removed",
            "removals_pending",
          ],
          rows: [look("r-2", DAY(2), 3), look("r-1", DAY(1), 5)],
        },
      ];
      await warehouse.commitFeed(feedCommit(run, { upserts }));
      const known = await warehouse.readSegments();
      expect(
        known.map(({ observedAt, ...rest }) => ({ ...rest, day: observedAt?.slice(0, 10) ?? null })),
      ).toEqual([
        {
          segmentId: SEGMENT,
          name: "VIP",
          currentSize: 9,
          knownMembers: 8,
          removalsPending: 3,
          day: "2026-11-02",
        },
        {
          segmentId: "s-2",
          name: null,
          currentSize: null,
          knownMembers: null,
          removalsPending: null,
          day: null,
        },
      ]);
    });
  });
}
