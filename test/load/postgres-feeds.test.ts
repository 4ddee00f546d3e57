import { describe, expect, onTestFinished, test } from "vitest";
import type { ProvenSpan, SeenMember } from "../../src/load/feeds/members.ts";
import { openWarehouse } from "../support/bound-load.ts";
import { openDoor } from "../support/door.ts";
import { useContext } from "./postgres-context.ts";
import { columnOf, valueOf } from "./suite/context.ts";
import { runOf } from "./suite/nights.ts";
import { pushed } from "./suite/people.ts";

const context = useContext();

const SEGMENT = "11111111-1111-4111-8111-111111111111";

/** Start of a day in November. */
const DAY = (day: number): string => `2026-11-0${day}T00:00:00Z`;

/** A member as listed on a page. */
const member = (servicePid: string, day: number, seenDay = 5): SeenMember => ({
  servicePid,
  firstAddedAt: DAY(day),
  seenAt: DAY(seenDay),
  extra: null,
});

/** Starts a reading of the segment by a job. */
async function startReading(job: string, warehouse = context.warehouse) {
  const run = runOf({ job, type: "enrich" });
  await warehouse.beginRun(run);
  return {
    add: (members: readonly SeenMember[], isListed = true) =>
      warehouse.addMembers({ run }, { segmentId: SEGMENT, members, isListed }),
    remove: (...spans: readonly ProvenSpan[]) => warehouse.removeMembers({ run }, SEGMENT, spans),
    clear: () => warehouse.clearListed(run, SEGMENT),
  };
}

const everything = (day: number): ProvenSpan => ({ after: null, before: null, seenAt: DAY(day) });

describe("members of a segment", () => {
  test("count once in a sweep each of whose COMMITs loses its reply", async () => {
    const door = await openDoor(context.url, { isOpen: true });
    const warehouse = openWarehouse({ url: door.url });
    onTestFinished(() => warehouse.close());
    const reading = await startReading("one", warehouse);
    door.cutAtCommit();
    const first = [member("p1", 1), member("p2", 2), member("p3", 3)];
    expect(await reading.add(first, false)).toEqual({ rowsWritten: 6, added: 3, suppressed: 0 });
    door.cutAtCommit();
    const second = [member("p1", 1), member("p3", 3), member("p4", 4)];
    expect(await reading.add(second)).toMatchObject({ rowsWritten: 2, added: 1 });
    door.cutAtCommit();
    const removed = await reading.remove({ after: DAY(1), before: DAY(3), seenAt: DAY(6) });
    expect(removed).toMatchObject({ rowsWritten: 2, removed: 1, pending: 0 });
    expect(door.cuts()).toBe(3);
    expect(await valueOf(context, "SELECT rows_written FROM person_data_ops.sync_run")).toBe("10");
  });

  test("are not removed by a response older than the one in which another job saw them", async () => {
    const members =
      "SELECT concat_ws(' ', service_pid, is_member, left(removed_seen_at::text, 10)) FROM person_data.segment_member ORDER BY 1";
    const [one, two] = [await startReading("one"), await startReading("two")];
    await one.add([member("p1", 1, 3), member("p2", 2, 3), member("p3", 2, 3)], false);
    await one.add([member("p1", 1, 4), member("p3", 2, 4)]);
    expect(await one.remove(everything(4))).toMatchObject({ removed: 1 });

    await one.clear();
    await one.add([member("p1", 1, 6)]);
    // One member returns, one is new, and an unknown one returns with an old time.
    await two.add([member("p1", 1, 7), member("p2", 2, 7), member("p4", 7, 7), member("p5", 1, 7)]);
    expect(await two.remove(everything(5))).toMatchObject({ removed: 1 });
    expect(await one.remove(everything(6))).toMatchObject({ removed: 0, pending: 3 });
    expect(await columnOf(context, members)).toEqual(["p1 t", "p2 t", "p3 f 2026-11-05", "p4 t", "p5 t"]);
    expect(await one.remove(everything(6), everything(8))).toMatchObject({ removed: 3, pending: 0 });
    const gone = ["p2 f 2026-11-08", "p3 f 2026-11-05", "p4 f 2026-11-08", "p5 f 2026-11-08"];
    expect(await columnOf(context, members)).toEqual(["p1 t", ...gone]);
  });
});

test("rows about the reading itself aren't counted, but the tables that they changed are reported", async () => {
  const run = runOf({ job: "one", type: "enrich" });
  await context.warehouse.beginRun(run);
  const note = async (size: number) => {
    const upsert = { table: "segment", columns: ["segment_id", "current_size"], isBookkeeping: true };
    await context.warehouse.commitFeed({ run, upserts: [{ ...upsert, rows: [[SEGMENT, String(size)]] }] });
    const changed =
      "SELECT last_changed_at FROM person_data_ops.table_freshness WHERE table_name = 'segment'";
    return valueOf(context, changed);
  };
  const [first, same, other] = [await note(8), await note(8), await note(9)];
  expect([first === null, first === same, first === other]).toEqual([false, true, false]);
  expect(await valueOf(context, "SELECT rows_written FROM person_data_ops.sync_run")).toBe("0");
});

test("a PID that the service calls unknown has one open reject, until it accepts or lists it", async () => {
  const { warehouse } = context;
  const run = runOf({ job: "another", type: "enrich" });
  await warehouse.beginRun(run);
  await warehouse.readWanted(run, "s-1", pushed("SELECT unnest(ARRAY['p-8', 'p-9']) AS service_pid"));
  /** Adds what is due; returns the open rejects. */
  const add = async (...invalid: readonly string[]) => {
    const { pids } = await warehouse.takeBatch(run, "s-1", { change: "add", after: "", limit: 10 });
    const answer = { pids, invalid, isOwn: true, apiRequestId: null, rejectMessage: "Unknown." };
    await warehouse.finishBatch({ run }, { segmentId: "s-1", change: "add", ...answer });
    return columnOf(
      context,
      "SELECT source_key FROM person_data.reject WHERE resolved_at IS NULL ORDER BY 1",
    );
  };
  const read = async (...listed: readonly string[]) => {
    await warehouse.clearListed(run, "s-1");
    await warehouse.noteListedPids(run, "s-1", listed);
    await warehouse.comparePush({ run }, { segmentId: "s-1", isComplete: false, retriesInvalid: true });
  };
  expect(await add("p-8", "p-9")).toEqual(["p-8", "p-9"]);
  await read("p-8");
  expect(await add("p-9")).toEqual(["p-9"]);
  await read();
  expect(await add()).toEqual([]);
  expect(await valueOf(context, "SELECT count(*) FROM person_data.reject")).toBe("2");
});
