import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { FeedUpsert } from "../../../src/load/feeds/feed-commit.ts";
import type { SeenMember } from "../../../src/load/feeds/segments.ts";
import type { RunRef } from "../../../src/load/lookup.ts";
import { erase, findTracesAnywhere } from "./erasure.ts";
import { DAY, feedCommit, member, SEGMENT } from "./feed-commits.ts";
import { callOf, runOf } from "./nights.ts";
import { makePeople } from "./people.ts";
import { columnOf, type GetPlace, type Place, valueOf } from "./place.ts";

async function beginFeed({ warehouse }: Place, job = "one"): Promise<RunRef> {
  const run = runOf({ job, type: "enrich" });
  await warehouse.beginRun(run);
  return run;
}

const aliases = (rows: FeedUpsert["rows"], more: Partial<FeedUpsert> = {}): FeedUpsert => ({
  table: "person_pid_alias",
  columns: ["sent_service_pid", "returned_service_pid", "first_seen_at"],
  rows,
  ...more,
});

const signals = (rows: FeedUpsert["rows"], more: Partial<FeedUpsert> = {}): FeedUpsert => ({
  table: "segment_death_signal",
  columns: ["segment_id", "obituary_id", "service_pid", "first_seen_at", "is_present", "removed_seen_at"],
  keep: ["first_seen_at"],
  rows,
  ...more,
});

/** What a look at a segment says of its size. */
const sized = (size: number): FeedUpsert => ({
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

const members = `SELECT concat(service_pid, ' ', is_member, ' ', removed_seen_at) FROM person_data.segment_member ORDER BY 1`;
const intervals = `SELECT concat(service_pid, ' ', valid_from, ' to ', valid_to, ' ', valid_from_basis)
  FROM person_data.segment_membership_history ORDER BY 1`;

/** How feeds keep what they read. */
export function describeFeeds(getPlace: GetPlace): void {
  describe("a commit of a feed", () => {
    test("writes what changed, counts it, and leaves the rest as it is", async () => {
      const place = getPlace();
      const { warehouse } = place;
      const run = await beginFeed(place);
      const first = [
        ["a", "b", DAY(1)],
        ["c", "d", DAY(1)],
        ["a", "b", "2026-11-02T00:00:00.123456Z"],
      ];
      expect(await warehouse.commitFeed(feedCommit(run, { upserts: [aliases(first)] }))).toEqual([
        { given: 2, suppressed: 0, inserted: 2, updated: 0, marked: 0 },
      ]);
      const before = await valueOf(
        place,
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
        { given: 3, suppressed: 0, inserted: 1, updated: 1, marked: 0 },
        { given: 1, suppressed: 0, inserted: 0, updated: 0, marked: 0 },
      ]);
      expect(
        await columnOf(
          place,
          "SELECT concat(sent_service_pid, ' ', first_seen_at) FROM person_data.person_pid_alias ORDER BY 1",
        ),
      ).toEqual(["a 2026-11-02 00:00:00.123456+00", "c 2026-11-03 00:00:00+00", "e 2026-11-03 00:00:00+00"]);
      expect(
        await valueOf(
          place,
          "SELECT _synced_at FROM person_data.person_pid_alias WHERE sent_service_pid = 'a'",
        ),
      ).toBe(before);
      expect(await valueOf(place, "SELECT rows_written FROM person_data_ops.sync_run")).toBe("4");
      expect(await columnOf(place, "SELECT table_name FROM person_data_state.table_load")).toEqual([
        "person_pid_alias",
      ]);
    });

    test("doesn't count rows about the reading itself, but tells of the tables that they changed", async () => {
      const place = getPlace();
      const run = await beginFeed(place);
      const changed = async () =>
        (await place.warehouse.tableFreshness()).find((row) => row.tableName === "segment")?.lastChangedAt;
      await place.warehouse.commitFeed(feedCommit(run, { upserts: [sized(8)] }));
      const first = await changed();
      expect(first).toMatch(/Z$/);
      await place.warehouse.commitFeed(feedCommit(run, { upserts: [sized(8)] }));
      expect(await changed()).toBe(first);
      await place.warehouse.commitFeed(feedCommit(run, { upserts: [sized(9)] }));
      expect(await changed()).not.toBe(first);
      expect(await valueOf(place, "SELECT rows_written FROM person_data_ops.sync_run")).toBe("0");
    });

    test("marks by a moment alone where a table has no flag, and unmarks what is shown again", async () => {
      const place = getPlace();
      const { warehouse } = place;
      const run = await beginFeed(place);
      const [first, second] = [
        "11111111-1111-4111-8111-111111111111",
        "22222222-2222-4222-8222-222222222222",
      ];
      const rejects = (ids: readonly string[], at: string): FeedUpsert => ({
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
          place,
          "SELECT concat(created_at, ' to ', resolved_at) FROM person_data.reject ORDER BY reject_id",
        ),
      ).toEqual(["2026-11-01 00:00:00+00 to 2026-11-02 00:00:00+00", "2026-11-01 00:00:00+00 to "]);
      expect(await written([first, second], 4)).toEqual([0, 1, 0]);
    });

    test("marks what the feed no longer shows, within its scope", async () => {
      const place = getPlace();
      const { warehouse } = place;
      const run = await beginFeed(place);
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
        { given: 1, suppressed: 0, inserted: 0, updated: 0, marked: 1 },
      ]);
      expect(await warehouse.commitFeed({ ...night, commitId: randomUUID() })).toMatchObject([{ marked: 0 }]);
      expect(
        await columnOf(
          place,
          "SELECT concat(obituary_id, ' ', is_present, ' ', removed_seen_at) FROM person_data.segment_death_signal ORDER BY 1",
        ),
      ).toEqual(["o1 t ", "o2 f 2026-11-02 00:00:00+00", "o3 t "]);
    });

    test("whose reply was lost is made once, checkpoints and all", async () => {
      const place = getPlace();
      const { warehouse } = place;
      const run = await beginFeed(place);
      const commit = feedCommit(run, {
        ledger: [callOf()],
        counters: { requests: 1 },
        upserts: [aliases([["a", "b", DAY(1)]])],
        checkpoints: [
          { stream: "first", cursor: { page: 3, pids: ["a"] } },
          { stream: "second", cursor: [1.5] },
        ],
      });
      expect(await warehouse.commitFeed(commit)).toMatchObject([{ inserted: 1 }]);
      expect(await warehouse.commitFeed(commit)).toMatchObject([{ given: 1, inserted: 1 }]);
      expect(await valueOf(place, "SELECT requests FROM person_data_ops.sync_run")).toBe("1");
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
      const place = getPlace();
      const run = await beginFeed(place);
      const rows = Array.from({ length: 8000 }, (_, i) => [
        `sent-${i}-${"x".repeat(40)}`,
        `returned-${i}`,
        DAY(1),
      ]);
      const commit = feedCommit(run, { upserts: [aliases(rows), aliases([["a", "b", DAY(1)]])] });
      expect(await place.warehouse.commitFeed(commit)).toEqual([
        { given: 8000, suppressed: 0, inserted: 8000, updated: 0, marked: 0 },
        { given: 1, suppressed: 0, inserted: 1, updated: 0, marked: 0 },
      ]);
    });
  });

  describe("what is known of segments", () => {
    test("goes with the newest look at each", async () => {
      const place = getPlace();
      const { warehouse } = place;
      const run = await beginFeed(place);
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

  describe("a sweep of a segment", () => {
    test("takes over more members than a statement can carry", async () => {
      const { warehouse } = getPlace();
      const run = await beginFeed(getPlace());
      const sweep = await warehouse.openSweep(run, { segmentId: SEGMENT, completeAt: null });
      const members = Array.from({ length: 5000 }, (_, i) => member(`p-${"0".repeat(40)}${i}`, 1));
      expect(await sweep.add(feedCommit(run), members)).toEqual({
        rowsWritten: 10_000,
        added: 5000,
        suppressed: 0,
      });
      await sweep.close();
      expect(await warehouse.memberCounts(SEGMENT)).toEqual({ living: 5000, known: 5000 });
    });

    test("goes on without people who are erased in its middle, and lists none of them", async () => {
      const place = getPlace();
      const { warehouse } = place;
      await makePeople(place, []);
      const run = await beginFeed(place);
      const first = await warehouse.openSweep(run, { segmentId: SEGMENT, completeAt: null });
      await first.add(
        feedCommit(run),
        ["p-1", "p-2", "p-3", "p-4"].map((pid, i) => member(pid, i + 1)),
      );
      await first.close();
      const sweep = await warehouse.openSweep(run, { segmentId: SEGMENT, completeAt: DAY(5) });
      await sweep.add(feedCommit(run), [member("p-4", 4, 6), member("p-3", 3, 6)]);
      await erase(place, { pids: ["p-3"] });
      expect(await findTracesAnywhere(place, ["p-3"])).toEqual([]);
      expect(await sweep.add(feedCommit(run), [member("p-3", 3, 6), member("p-1", 1, 6)])).toMatchObject({
        suppressed: 1,
      });
      const spans = [{ after: DAY(1), before: DAY(4), seenAt: DAY(6) }];
      expect(await sweep.settle(feedCommit(run), spans)).toMatchObject({ removed: 1, pending: 0 });
      // It is killed here: nobody closes it.
      await erase(place, { pids: ["p-4"] });
      expect(await findTracesAnywhere(place, ["p-3", "p-4"])).toEqual([]);
      expect(await columnOf(place, members)).toEqual(["p-1 t ", "p-2 f 2026-11-06 00:00:00+00"]);
    });

    test("takes over who appears, and records who is proven gone", async () => {
      const place = getPlace();
      const { warehouse } = place;
      const run = await beginFeed(place);
      const first = await warehouse.openSweep(run, { segmentId: SEGMENT, completeAt: null });
      expect(first.isFirst).toBe(true);
      expect(
        await first.add(feedCommit(run), [
          member("p1", 1),
          member("p2", 2),
          member("p3", 3),
          member("p4", null),
        ]),
      ).toEqual({ rowsWritten: 8, added: 4, suppressed: 0 });
      expect(await first.settle(feedCommit(run), [])).toEqual({
        rowsWritten: 0,
        removed: 0,
        pending: 0,
        pendingAt: [],
      });
      await first.close();
      expect(await warehouse.memberCounts(SEGMENT)).toEqual({ living: 4, known: 4 });

      const second = await warehouse.openSweep(run, { segmentId: SEGMENT, completeAt: DAY(5) });
      expect(second.isFirst).toBe(false);
      expect(await second.add(feedCommit(run), [member("p1", 1, 6), member("p5", 4, 6)])).toMatchObject({
        rowsWritten: 2,
        added: 1,
      });
      const spans = [{ after: DAY(1), before: DAY(3), seenAt: DAY(6) }];
      expect(await second.settle(feedCommit(run), spans)).toEqual({
        rowsWritten: 2,
        removed: 1,
        pending: 2,
        pendingAt: ["2026-11-03T00:00:00Z", null],
      });
      await second.close();
      await second.close();
      expect(await columnOf(place, members)).toEqual([
        "p1 t ",
        "p2 f 2026-11-06 00:00:00+00",
        "p3 t ",
        "p4 t ",
        "p5 t ",
      ]);
      expect(await warehouse.memberCounts(SEGMENT)).toEqual({ living: 4, known: 5 });

      const third = await warehouse.openSweep(run, { segmentId: SEGMENT, completeAt: DAY(6) });
      expect(await third.add(feedCommit(run), [member("p2", 2, 7)])).toMatchObject({
        rowsWritten: 2,
        added: 1,
      });
      await third.close();
      expect(await columnOf(place, intervals)).toEqual([
        "p1 2026-11-01 00:00:00+00 to  vendor",
        "p2 2026-11-02 00:00:00+00 to 2026-11-06 00:00:00+00 vendor",
        "p2 2026-11-07 00:00:00+00 to  observed",
        "p3 2026-11-03 00:00:00+00 to  vendor",
        "p4 2026-11-05 00:00:00+00 to  observed",
        "p5 2026-11-06 00:00:00+00 to  observed",
      ]);
    });

    test("of a segment that was read before doesn't take `first_added_at` for the begin, though nobody is known", async () => {
      const place = getPlace();
      const { warehouse } = place;
      const run = await beginFeed(place);
      const other = "22222222-2222-4222-8222-222222222222";
      const columns = ["segment_id", "current_size", "last_complete_sync_at"];
      const known = { table: "segment", columns, rows: [[other, "0", DAY(5)]] };
      await warehouse.commitFeed(feedCommit(run, { upserts: [known] }));
      const told = await warehouse.openSweep(run, { segmentId: SEGMENT, completeAt: DAY(5) });
      // As after `checkpoint reset`: only the table of segments knows of the earlier reading.
      const found = await warehouse.openSweep(run, { segmentId: other, completeAt: null });
      for (const sweep of [told, found]) {
        expect(await sweep.add(feedCommit(run), [member("p1", 1, 6), member("p2", 5, 6)])).toMatchObject({
          rowsWritten: 4,
          added: 2,
          suppressed: 0,
        });
        expect(await sweep.settle(feedCommit(run), [])).toMatchObject({ removed: 0, pending: 0 });
        await sweep.close();
      }
      const seen = ["p1 2026-11-06 00:00:00+00 to  observed", "p2 2026-11-05 00:00:00+00 to  vendor"];
      expect(await columnOf(place, intervals)).toEqual([seen[0], seen[0], seen[1], seen[1]]);
    });

    test("tells of a commit that is repeated what it did, also without a call in its ledger", async () => {
      const place = getPlace();
      const { warehouse } = place;
      const run = await beginFeed(place);
      const first = await warehouse.openSweep(run, { segmentId: SEGMENT, completeAt: null });
      const taking = feedCommit(run, { counters: { records_received: 3 } });
      const three = [member("p1", 1), member("p2", 2), member("p3", 3)];
      const taken = { rowsWritten: 6, added: 3, suppressed: 0 };
      expect(await first.add(taking, three)).toMatchObject(taken);
      expect(await first.add(taking, three)).toMatchObject(taken);
      await first.close();

      const second = await warehouse.openSweep(run, { segmentId: SEGMENT, completeAt: DAY(5) });
      const adding = feedCommit(run);
      for (let tries = 0; tries < 2; tries++) {
        expect(await second.add(adding, [member("p1", 1, 6), member("p4", 4, 6)])).toMatchObject({
          rowsWritten: 2,
          added: 1,
        });
      }
      const settling = feedCommit(run);
      const spans = [{ after: DAY(1), before: DAY(3), seenAt: DAY(6) }];
      for (let tries = 0; tries < 2; tries++) {
        expect(await second.settle(settling, spans)).toEqual({
          rowsWritten: 2,
          removed: 1,
          pending: 1,
          pendingAt: ["2026-11-03T00:00:00Z"],
        });
      }
      expect(await second.settle(feedCommit(run), spans)).toMatchObject({ rowsWritten: 0, removed: 0 });
      await second.close();
      expect(await place.sql("SELECT records_received, rows_written FROM person_data_ops.sync_run")).toEqual([
        { records_received: "3", rows_written: "10" },
      ]);
    });

    test("takes nobody for gone whom another job has seen since", async () => {
      const place = getPlace();
      const { warehouse } = place;
      const [one, two] = [await beginFeed(place), await beginFeed(place, "two")];
      const seeOnce = async (run: RunRef, seen: readonly SeenMember[], goneAt: number) => {
        const sweep = await warehouse.openSweep(run, { segmentId: SEGMENT, completeAt: null });
        await sweep.add(feedCommit(run), seen);
        const settled = await sweep.settle(feedCommit(run), [
          { after: null, before: null, seenAt: DAY(goneAt) },
        ]);
        await sweep.close();
        return settled.removed;
      };
      expect(await seeOnce(one, [member("p1", 1, 3), member("p2", 2, 3), member("p3", 2, 3)], 3)).toBe(0);
      expect(await seeOnce(one, [member("p1", 1, 4), member("p3", 2, 4)], 4)).toBe(1);

      const sweep = await warehouse.openSweep(one, { segmentId: SEGMENT, completeAt: null });
      await sweep.add(feedCommit(one), [member("p1", 1, 6)]);
      // Somebody comes back, somebody is new, and somebody unknown comes back with an old time.
      const others = [member("p1", 1, 7), member("p2", 2, 7), member("p4", 7, 7), member("p5", 1, 7)];
      expect(await seeOnce(two, others, 5)).toBe(1);
      const spans = [{ after: null, before: null, seenAt: DAY(6) }];
      expect(await sweep.settle(feedCommit(one), spans)).toMatchObject({ removed: 0, pending: 3 });
      expect(await columnOf(place, members)).toEqual([
        "p1 t ",
        "p2 t ",
        "p3 f 2026-11-05 00:00:00+00",
        "p4 t ",
        "p5 t ",
      ]);
      const later = [...spans, { after: null, before: null, seenAt: DAY(8) }];
      expect(await sweep.settle(feedCommit(one), later)).toMatchObject({ removed: 3, pending: 0 });
      await sweep.close();
      expect(await warehouse.memberCounts(SEGMENT)).toEqual({ living: 1, known: 5 });
      expect((await columnOf(place, members)).slice(1)).toEqual([
        "p2 f 2026-11-08 00:00:00+00",
        "p3 f 2026-11-05 00:00:00+00",
        "p4 f 2026-11-08 00:00:00+00",
        "p5 f 2026-11-08 00:00:00+00",
      ]);
    });
  });
}
