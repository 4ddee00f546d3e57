import { describe, expect, test } from "vitest";
import { commitBatch, commitComparison } from "../../support/bound-load.ts";
import { clearListed } from "../../../src/load/feeds/members.ts";
import {
  countPush,
  noteListedPids,
  type PushAnswer,
  type PushChange,
  readWanted,
  returnBatch,
  takeBatch,
} from "../../../src/load/feeds/push.ts";
import { erase, findTracesAnywhere } from "./erased-couple.ts";
import { feedCommit } from "./feed-commits.ts";
import { callOf, runOf } from "./nights.ts";
import { makePeople, people } from "./people.ts";
import { columnOf, type GetContext, type Context, valueOf } from "./context.ts";
import type { RunRef } from "../../../src/load/runs/run-ref.ts";

const source = {
  ...people,
  key: ["service_pid"],
  relation: { sql: "SELECT pid AS service_pid FROM crm.vip" },
  fields: {},
};

const commitOf = (run: RunRef) =>
  feedCommit(run, {
    calls: [callOf({ endpoint: "POST /v2/segments/members/add" })],
    counters: { requests: 1 },
  });

/** Steps of a push into one segment by one run. */
async function beginPush(context: Context, segmentId = "s-1") {
  const { db } = context.warehouse;
  const run = runOf({ job: "another", type: "enrich" });
  await context.warehouse.beginRun(run);
  return {
    wanted: () => readWanted(db, run, segmentId, source),
    count: () => countPush(db, { job: run.job, segmentId }),
    /** Reads a segment with these members. */
    async read(pids: readonly string[], more: { isComplete?: boolean; retriesInvalid?: boolean } = {}) {
      await clearListed(db, run, segmentId);
      await noteListedPids(db, run, segmentId, pids);
      const reading = { segmentId, isComplete: true, retriesInvalid: false, ...more };
      await commitComparison(db, feedCommit(run), reading);
      await clearListed(db, run, segmentId);
    },
    take: (change: PushChange, limit = 10, after = "") =>
      takeBatch(db, run, segmentId, { change, after, limit }),
    give: (change: PushChange, pids: readonly string[]) => returnBatch(db, run, segmentId, { change, pids }),
    finish: (change: PushChange, pids: readonly string[], more: Partial<PushAnswer> = {}) =>
      commitBatch(db, commitOf(run), {
        segmentId,
        change,
        pids,
        invalid: [],
        isOwn: true,
        apiRequestId: null,
        rejectMessage: "Unknown.",
        ...more,
      }),
  };
}

async function setVips(context: Context, pids: readonly (string | null)[]): Promise<void> {
  const values = pids.map((pid) => (pid === null ? "(NULL)" : `('${pid}')`)).join();
  await context.sql(
    `DROP TABLE IF EXISTS crm.vip; CREATE TABLE crm.vip (pid text); INSERT INTO crm.vip (pid) VALUES ${values}`,
  );
}

const state = `SELECT concat(service_pid, ' ', state, CASE is_own WHEN true THEN ' own' WHEN false THEN '' ELSE ' in doubt' END,
    CASE WHEN NOT is_wanted THEN ' unwanted' END)
  FROM person_data_state.segment_push_member ORDER BY service_pid`;

/** Tests of segments filled by queries. */
export function describePushes(getContext: GetContext): void {
  describe("a push", () => {
    test("counts the rows of its query, takes them batch by batch and rejects unknown PIDs", async () => {
      const context = getContext();
      await setVips(context, ["p-1", "p-2", "p-3", "p-3", null, " ", "p-9"]);
      const push = await beginPush(context);
      expect(await push.wanted()).toEqual({ read: 7, missing: 2, duplicate: 1, suppressed: 0, wanted: 4 });
      expect(await push.count()).toEqual({ toAdd: 4, toRemove: 0, own: 0, unknown: 0 });
      expect(await push.take("add", 3)).toEqual({ pids: ["p-1", "p-2", "p-3"], last: "p-3" });
      expect(await columnOf(context, state)).toEqual([
        "p-1 unknown in doubt",
        "p-2 unknown in doubt",
        "p-3 unknown in doubt",
        "p-9 absent",
      ]);
      await push.finish("add", ["p-1", "p-2", "p-3"]);
      expect(await push.take("add", 3, "p-3")).toEqual({ pids: ["p-9"], last: "p-9" });
      await push.finish("add", ["p-9"], { invalid: ["p-9"] });
      expect(await push.take("add")).toEqual({ pids: [], last: null });
      expect(await columnOf(context, state)).toEqual([
        "p-1 member own",
        "p-2 member own",
        "p-3 member own",
        "p-9 invalid",
      ]);
      expect(await columnOf(context, "SELECT source_key FROM person_data.reject")).toEqual(["p-9"]);

      await setVips(context, ["p-2", "p-4", "p-9"]);
      const next = await beginPush(context);
      expect(await next.wanted()).toMatchObject({ read: 3, wanted: 3 });
      expect(await next.count()).toEqual({ toAdd: 1, toRemove: 2, own: 3, unknown: 0 });
      expect(await next.take("remove")).toEqual({ pids: ["p-1", "p-3"], last: "p-3" });
      await next.finish("remove", ["p-1", "p-3"]);
      expect(await columnOf(context, state)).toEqual(["p-2 member own", "p-4 absent", "p-9 invalid"]);
    });

    test("takes the PIDs of a refused call again", async () => {
      const context = getContext();
      await setVips(context, ["p-1", "p-2"]);
      const push = await beginPush(context);
      await push.wanted();
      await push.give("add", (await push.take("add")).pids);
      expect(await columnOf(context, state)).toEqual(["p-1 absent", "p-2 absent"]);
      await push.take("add");
      await push.finish("add", ["p-1", "p-2"]);
      await setVips(context, ["p-2"]);
      await push.wanted();
      await push.give("remove", (await push.take("remove")).pids);
      expect(await columnOf(context, state)).toEqual(["p-1 member own unwanted", "p-2 member own"]);
    });

    test("owns no member that a reading found before the add", async () => {
      const context = getContext();
      await setVips(context, ["p-1", "p-2"]);
      const push = await beginPush(context);
      await push.wanted();
      await push.read(["p-2", "p-7"]);
      expect(await columnOf(context, state)).toEqual(["p-1 absent", "p-2 member"]);
      const { pids } = await push.take("add");
      await push.finish("add", pids);
      await setVips(context, ["p-8"]);
      await push.wanted();
      expect(await push.count()).toMatchObject({ toAdd: 1, toRemove: 1, own: 1 });
      expect(await columnOf(context, state)).toEqual(["p-1 member own unwanted", "p-8 absent"]);
    });

    test("leaves all PIDs of a call in doubt that added a member again, except unknown ones", async () => {
      const context = getContext();
      await setVips(context, ["p-1", "p-2", "p-9"]);
      const push = await beginPush(context);
      await push.wanted();
      const { pids } = await push.take("add");
      await push.finish("add", pids, { isOwn: false, invalid: ["p-9"] });
      expect(await columnOf(context, state)).toEqual([
        "p-1 member in doubt",
        "p-2 member in doubt",
        "p-9 invalid",
      ]);
      await setVips(context, ["p-2"]);
      await push.wanted();
      expect(await push.count()).toMatchObject({ toRemove: 0, own: 0 });
      expect(await columnOf(context, state)).toEqual(["p-1 member in doubt unwanted", "p-2 member in doubt"]);
    });

    test("leaves PIDs of a lost add in doubt if the next reading lists them, and adds the others again", async () => {
      const context = getContext();
      await setVips(context, ["p-1", "p-2"]);
      const killed = await beginPush(context);
      await killed.wanted();
      await killed.take("add");
      const next = await beginPush(context);
      await next.wanted();
      expect(await next.count()).toMatchObject({ toAdd: 0, unknown: 2 });
      // A member may have moved to a page that was already read.
      await next.read(["p-2"], { isComplete: false });
      expect(await columnOf(context, state)).toEqual(["p-1 absent", "p-2 member in doubt"]);
    });

    test("retries the removal of members that a lost removal left, and deletes the others", async () => {
      const context = getContext();
      await setVips(context, ["p-1", "p-2", "p-3"]);
      const push = await beginPush(context);
      await push.wanted();
      await push.take("add");
      await push.finish("add", ["p-1", "p-2", "p-3"]);
      await setVips(context, ["p-3"]);
      await push.wanted();
      expect(await push.take("remove")).toMatchObject({ pids: ["p-1", "p-2"] });
      const next = await beginPush(context);
      await next.wanted();
      expect(await next.count()).toEqual({ toAdd: 0, toRemove: 0, own: 1, unknown: 2 });
      await next.read(["p-1", "p-3"]);
      expect(await next.count()).toEqual({ toAdd: 0, toRemove: 1, own: 2, unknown: 0 });
      expect(await columnOf(context, state)).toEqual(["p-1 member own unwanted", "p-3 member own"]);
    });

    test("adds people again that others removed, but only after a complete reading", async () => {
      const context = getContext();
      await setVips(context, ["p-1", "p-2"]);
      const push = await beginPush(context);
      await push.wanted();
      await push.take("add");
      await push.finish("add", ["p-1", "p-2"]);
      await push.read(["p-1"], { isComplete: false });
      expect(await push.count()).toMatchObject({ toAdd: 0, own: 2 });
      await push.read(["p-1"]);
      expect(await push.count()).toMatchObject({ toAdd: 1, own: 1 });
      expect(await columnOf(context, state)).toEqual(["p-1 member own", "p-2 absent"]);
    });

    test("keeps segments apart, and unknown PIDs until they are due again", async () => {
      const context = getContext();
      await setVips(context, ["p-8", "p-9"]);
      const push = await beginPush(context);
      await push.wanted();
      await push.take("add");
      await push.finish("add", ["p-8", "p-9"], { invalid: ["p-8", "p-9"], apiRequestId: "req-1" });
      const open = `SELECT source_key || ' ' || api_request_id FROM person_data.reject WHERE resolved_at IS NULL ORDER BY 1`;
      expect(await columnOf(context, open)).toEqual(["p-8 req-1", "p-9 req-1"]);
      await push.read(["p-8"]);
      expect(await columnOf(context, open)).toEqual(["p-9 req-1"]);
      expect(await push.count()).toMatchObject({ toAdd: 0 });
      await push.read(["p-8"], { retriesInvalid: true });
      expect(await push.take("add")).toMatchObject({ pids: ["p-9"] });
      await push.finish("add", ["p-9"], { invalid: ["p-9"], apiRequestId: "req-2" });
      expect(await columnOf(context, open)).toEqual(["p-9 req-1"]);
      await push.read([], { isComplete: false, retriesInvalid: true });
      await push.take("add");
      await push.finish("add", ["p-9"]);
      expect(await columnOf(context, open)).toEqual([]);
      expect(await valueOf(context, "SELECT count(*) FROM person_data.reject")).toBe("2");

      const other = await beginPush(context, "s-2");
      await other.wanted();
      expect(await other.count()).toEqual({ toAdd: 2, toRemove: 0, own: 0, unknown: 0 });
      expect(await push.count()).toMatchObject({ toAdd: 0, own: 1 });
    });

    test("counts distinct listed members, erased ones included", async () => {
      const context = getContext();
      await makePeople(context, []);
      await erase(context, { pids: ["p-2"] });
      const { db } = context.warehouse;
      const run = runOf({ job: "another", type: "enrich" });
      await context.warehouse.beginRun(run);
      expect(await noteListedPids(db, run, "s-1", ["p-1", "p-2", "p-3"])).toBe(3);
      expect(await noteListedPids(db, run, "s-1", ["p-3", "p-4"])).toBe(1);
      expect(await findTracesAnywhere(context, ["p-2"])).toEqual([]);
    });

    test("neither sends nor keeps people who are erased while it is under way", async () => {
      const context = getContext();
      await makePeople(context, []);
      await setVips(context, ["p-1", "p-2", "p-3", "p-4", "p-9"]);
      const push = await beginPush(context);
      await push.wanted();
      expect((await push.take("add", 10, "p-3")).pids).toEqual(["p-4", "p-9"]);
      await erase(context, { pids: ["p-2", "p-4", "p-9"] });
      expect(await findTracesAnywhere(context, ["p-2", "p-4", "p-9"])).toEqual([]);
      await push.finish("add", ["p-4", "p-9"], { invalid: ["p-9"] });
      expect(await push.take("add")).toEqual({ pids: ["p-1", "p-3"], last: "p-3" });
      await push.finish("add", ["p-1", "p-3"]);
      expect(await findTracesAnywhere(context, ["p-2", "p-4", "p-9"])).toEqual([]);
      expect(await columnOf(context, state)).toEqual(["p-1 member own", "p-3 member own"]);
      await setVips(context, ["p-2", "p-3"]);
      expect(await push.wanted()).toMatchObject({ read: 2, suppressed: 1, wanted: 1 });
      expect(await columnOf(context, state)).toEqual(["p-1 member own unwanted", "p-3 member own"]);
    });

    test("sends no person whose row an erasure has not deleted yet", async () => {
      const context = getContext();
      await makePeople(context, []);
      await setVips(context, ["p-1", "p-2"]);
      const push = await beginPush(context);
      await erase(context, { pids: ["p-2"] });
      // As written by a load that started before the erasure.
      await context.sql(`INSERT INTO person_data_state.segment_push_member
          (job, segment_id, service_pid, is_wanted, state, is_own, run_id, _synced_at)
        SELECT 'another', 's-1', pid, true, 'absent', false, 'old', now() FROM crm.vip`);
      expect(await push.take("add")).toEqual({ pids: ["p-1"], last: "p-2" });
    });
  });
}
