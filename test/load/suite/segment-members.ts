import { describe, expect, test } from "vitest";
import { commitMembers, commitRemovals } from "../../support/bound-load.ts";
import {
  clearListed,
  countMembers,
  type ProvenSpan,
  type SeenMember,
} from "../../../src/load/feeds/members.ts";
import { erase, findTracesAnywhere } from "./erased-couple.ts";
import { DAY, feedCommit, member, SEGMENT } from "./feed-commits.ts";
import { runOf } from "./nights.ts";
import { makePeople } from "./people.ts";
import { columnOf, type GetContext, type Context } from "./context.ts";
import type { RunRef } from "../../../src/load/runs/run-ref.ts";

async function beginReading(context: Context, job = "one"): Promise<RunRef> {
  const run = runOf({ job, type: "enrich" });
  await context.warehouse.beginRun(run);
  return run;
}

const everything = (day: number): ProvenSpan => ({ after: null, before: null, seenAt: DAY(day) });

/** Adds and settles members for a run. */
function readingOf({ warehouse: { db } }: Context, run: RunRef, segmentId = SEGMENT) {
  return {
    add: (members: readonly SeenMember[], isListed = true) =>
      commitMembers(db, feedCommit(run), { segmentId, members, isListed }),
    settle: (spans: readonly ProvenSpan[]) => commitRemovals(db, feedCommit(run), segmentId, spans),
    clear: () => clearListed(db, run, segmentId),
  };
}

const members = `SELECT concat(service_pid, ' ', is_member, ' ', removed_seen_at) FROM person_data.segment_member ORDER BY 1`;
const intervals = `SELECT concat(service_pid, ' ', valid_from, ' to ', valid_to, ' ', valid_from_basis)
  FROM person_data.segment_membership_history ORDER BY 1`;

/** Marks the segment as read completely. */
async function completeAt(context: Context, run: RunRef, day: number, segmentId = SEGMENT): Promise<void> {
  const columns = ["segment_id", "current_size", "last_complete_sync_at"];
  const rows = [[segmentId, "0", DAY(day)]];
  await context.warehouse.commitFeed(feedCommit(run, { upserts: [{ table: "segment", columns, rows }] }));
}

/** Tests of segment members. */
export function describeSegmentMembers(getContext: GetContext): void {
  describe("members of a segment", () => {
    test("are stored as listed, and removed as proven", async () => {
      const context = getContext();
      const { db } = context.warehouse;
      const run = await beginReading(context);
      const reading = readingOf(context, run);
      const four = [member("p1", 1), member("p2", 2), member("p3", 3), member("p4", null)];
      expect(await reading.add(four, false)).toEqual({ rowsWritten: 8, added: 4, suppressed: 0 });
      expect(await countMembers(db, SEGMENT)).toEqual({ living: 4, known: 4 });

      await completeAt(context, run, 5);
      expect(await reading.add([member("p1", 1, 6), member("p5", 4, 6)])).toMatchObject({
        rowsWritten: 2,
        added: 1,
      });
      expect(await reading.settle([{ after: DAY(1), before: DAY(3), seenAt: DAY(6) }])).toEqual({
        rowsWritten: 2,
        removed: 1,
        pending: 2,
        pendingAt: ["2026-11-03T00:00:00Z", null],
      });
      await reading.clear();
      expect(await columnOf(context, members)).toEqual([
        "p1 t ",
        "p2 f 2026-11-06 00:00:00+00",
        "p3 t ",
        "p4 t ",
        "p5 t ",
      ]);
      expect(await countMembers(db, SEGMENT)).toEqual({ living: 4, known: 5 });

      expect(await reading.add([member("p2", 2, 7)])).toMatchObject({ rowsWritten: 2, added: 1 });
      expect(await columnOf(context, intervals)).toEqual([
        "p1 2026-11-01 00:00:00+00 to  vendor",
        "p2 2026-11-02 00:00:00+00 to 2026-11-06 00:00:00+00 vendor",
        "p2 2026-11-07 00:00:00+00 to  observed",
        "p3 2026-11-03 00:00:00+00 to  vendor",
        "p4 2026-11-05 00:00:00+00 to  observed",
        "p5 2026-11-06 00:00:00+00 to  observed",
      ]);
    });

    test("are not removed by a span that begins or ends at their own moment, nor if a page listed them", async () => {
      const context = getContext();
      const reading = readingOf(context, await beginReading(context));
      await reading.add([member("p1", 1), member("p2", 2), member("p3", 3)], false);
      await reading.add([member("p3", 3, 6)]);
      const spans = [
        { after: DAY(1), before: DAY(2), seenAt: DAY(6) },
        { after: DAY(2), before: null, seenAt: DAY(6) },
      ];
      expect(await reading.settle(spans)).toMatchObject({ removed: 0, pending: 2 });
      expect(await reading.settle([...spans, { after: null, before: DAY(2), seenAt: DAY(6) }])).toMatchObject(
        {
          removed: 1,
          pending: 1,
          pendingAt: ["2026-11-02T00:00:00Z"],
        },
      );
    });

    test("that a complete reading should have listed are members since they were seen", async () => {
      const context = getContext();
      const run = await beginReading(context);
      await completeAt(context, run, 5);
      const reading = readingOf(context, run);
      expect(await reading.add([member("p1", 1, 6), member("p2", 5, 6)])).toMatchObject({ added: 2 });
      expect(await columnOf(context, intervals)).toEqual([
        "p1 2026-11-06 00:00:00+00 to  observed",
        "p2 2026-11-05 00:00:00+00 to  vendor",
      ]);
    });

    test("can be more than a statement can carry", async () => {
      const context = getContext();
      const reading = readingOf(context, await beginReading(context));
      const many = Array.from({ length: 5000 }, (_, i) => member(`p-${"0".repeat(40)}${i}`, 1));
      expect(await reading.add(many)).toEqual({ rowsWritten: 10_000, added: 5000, suppressed: 0 });
      expect(await countMembers(context.warehouse.db, SEGMENT)).toEqual({ living: 5000, known: 5000 });
    });

    test("who are erased during a reading are neither stored nor listed", async () => {
      const context = getContext();
      await makePeople(context, []);
      const reading = readingOf(context, await beginReading(context));
      await reading.add(
        ["p-1", "p-2", "p-3", "p-4"].map((pid, i) => member(pid, i + 1)),
        false,
      );
      await reading.add([member("p-4", 4, 6), member("p-3", 3, 6)]);
      await erase(context, { pids: ["p-3"] });
      expect(await findTracesAnywhere(context, ["p-3"])).toEqual([]);
      expect(await reading.add([member("p-3", 3, 6), member("p-1", 1, 6)])).toMatchObject({ suppressed: 1 });
      const spans = [{ after: DAY(1), before: DAY(4), seenAt: DAY(6) }];
      expect(await reading.settle(spans)).toMatchObject({ removed: 1, pending: 0 });
      // The run is killed here, and the list stays.
      await erase(context, { pids: ["p-4"] });
      expect(await findTracesAnywhere(context, ["p-3", "p-4"])).toEqual([]);
      expect(await columnOf(context, members)).toEqual(["p-1 t ", "p-2 f 2026-11-06 00:00:00+00"]);
    });

    test("are added once if the reply of a commit was lost", async () => {
      const context = getContext();
      const { db } = context.warehouse;
      const run = await beginReading(context);
      const reading = readingOf(context, run);
      await reading.add([member("p1", 1), member("p2", 2), member("p3", 3)], false);
      const adding = feedCommit(run, { counters: { records_received: 2 } });
      const page = { segmentId: SEGMENT, members: [member("p1", 1, 6), member("p4", 4, 6)], isListed: true };
      const settling = feedCommit(run);
      for (let tries = 0; tries < 2; tries++) {
        expect(await commitMembers(db, adding, page)).toMatchObject({ rowsWritten: 2, added: 1 });
      }
      const spans = [{ after: DAY(1), before: DAY(3), seenAt: DAY(6) }];
      for (let tries = 0; tries < 2; tries++) {
        expect(await commitRemovals(db, settling, SEGMENT, spans)).toEqual({
          rowsWritten: 2,
          removed: 1,
          pending: 1,
          pendingAt: ["2026-11-03T00:00:00Z"],
        });
      }
      expect(await reading.settle(spans)).toMatchObject({ rowsWritten: 0, removed: 0 });
      expect(
        await context.sql("SELECT records_received, rows_written FROM person_data_ops.sync_run"),
      ).toEqual([{ records_received: "2", rows_written: "10" }]);
    });

    test("are not removed by a response older than the one in which another job saw them", async () => {
      const context = getContext();
      const one = readingOf(context, await beginReading(context));
      const two = readingOf(context, await beginReading(context, "two"));
      await one.add([member("p1", 1, 3), member("p2", 2, 3), member("p3", 2, 3)], false);
      await one.add([member("p1", 1, 4), member("p3", 2, 4)]);
      expect(await one.settle([everything(4)])).toMatchObject({ removed: 1 });

      await one.clear();
      await one.add([member("p1", 1, 6)]);
      // One member returns, one is new, and an unknown one returns with an old time.
      await two.add([member("p1", 1, 7), member("p2", 2, 7), member("p4", 7, 7), member("p5", 1, 7)]);
      expect(await two.settle([everything(5)])).toMatchObject({ removed: 1 });
      expect(await one.settle([everything(6)])).toMatchObject({ removed: 0, pending: 3 });
      expect(await columnOf(context, members)).toEqual([
        "p1 t ",
        "p2 t ",
        "p3 f 2026-11-05 00:00:00+00",
        "p4 t ",
        "p5 t ",
      ]);
      expect(await one.settle([everything(6), everything(8)])).toMatchObject({ removed: 3, pending: 0 });
      expect(await countMembers(context.warehouse.db, SEGMENT)).toEqual({ living: 1, known: 5 });
      expect((await columnOf(context, members)).slice(1)).toEqual([
        "p2 f 2026-11-08 00:00:00+00",
        "p3 f 2026-11-05 00:00:00+00",
        "p4 f 2026-11-08 00:00:00+00",
        "p5 f 2026-11-08 00:00:00+00",
      ]);
    });
  });
}
