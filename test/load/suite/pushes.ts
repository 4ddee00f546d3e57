import { describe, expect, test } from "vitest";
import type { SegmentPush } from "../../../src/load/feeds/push.ts";
import type { RunRef } from "../../../src/load/lookup.ts";
import { erase, findTracesAnywhere } from "./erasure.ts";
import { feedCommit } from "./feed-commits.ts";
import { callOf, runOf } from "./nights.ts";
import { makePeople, people } from "./people.ts";
import { columnOf, type GetPlace, type Place, valueOf } from "./place.ts";

const job = { job: "another", type: "enrich" } as const;
const AT = "2026-11-21T04:00:00.123456+00:00";

const commitOf = (run: RunRef) =>
  feedCommit(run, {
    ledger: [callOf({ endpoint: "POST /v2/segments/members/add" })],
    counters: { requests: 1 },
  });

const source = {
  ...people,
  key: ["service_pid"],
  relation: { sql: "SELECT pid AS service_pid FROM crm.vip" },
  fields: {},
};

async function openPush(
  place: Place,
  again: string | null = null,
): Promise<{ push: SegmentPush; run: RunRef }> {
  const run = runOf(job);
  await place.warehouse.beginRun(run);
  return { push: await place.warehouse.openPush(run, { segmentId: "s-1", source, again }), run };
}

async function setVips(place: Place, pids: readonly (string | null)[]): Promise<void> {
  await place.sql("DROP TABLE IF EXISTS crm.vip; CREATE TABLE crm.vip (pid text)");
  for (const pid of pids) {
    await place.sql(`INSERT INTO crm.vip (pid) VALUES (${pid === null ? "NULL" : `'${pid}'`})`);
  }
}

const members = `SELECT service_pid || ' ' || state || CASE WHEN is_own THEN ' own' ELSE '' END
  FROM person_data_state.segment_push_member ORDER BY service_pid`;

const said = { invalid: [], own: null, apiRequestId: null, rejectMessage: "Nobody." };

/** Segments made of queries. */
export function describePushes(getPlace: GetPlace): void {
  describe("a push", () => {
    test("is the difference between a query and what is known, page by page, and rejects who is unknown", async () => {
      const place = getPlace();
      await setVips(place, ["p-1", "p-2", "p-3", "p-3", null, "p-9"]);
      const { push, run } = await openPush(place);
      expect(push.uncertainSince).toBe(null);
      expect(await push.count()).toEqual({
        read: 6,
        missing: 1,
        duplicate: 1,
        suppressed: 0,
        unchanged: 0,
        toAdd: 4,
        toRemove: 0,
        own: 0,
      });
      expect(await push.next("adding", "", 3)).toEqual(["p-1", "p-2", "p-3"]);
      expect(await push.next("adding", "p-3", 3)).toEqual(["p-9"]);
      await push.begin("adding", ["p-1", "p-2", "p-3", "p-9"], AT);
      const outcome = { ...said, invalid: ["p-9"], own: new Set(["p-1", "p-2"]) };
      await push.finish(commitOf(run), "adding", ["p-1", "p-2", "p-3", "p-9"], outcome);
      await push.close();
      expect(await columnOf(place, members)).toEqual([
        "p-1 member own",
        "p-2 member own",
        "p-3 member",
        "p-9 invalid",
      ]);
      expect(await columnOf(place, "SELECT source_key FROM person_data.reject")).toEqual(["p-9"]);

      await setVips(place, ["p-2", "p-4", "p-9"]);
      const next = await openPush(place);
      expect(await next.push.count()).toMatchObject({ unchanged: 2, toAdd: 1, toRemove: 1, own: 2 });
      expect(await next.push.next("removing", "", 10)).toEqual(["p-1"]);
      await next.push.begin("removing", ["p-1"], AT);
      await next.push.finish(commitOf(next.run), "removing", ["p-1"], said);
      await next.push.close();
      expect(await columnOf(place, members)).toEqual(["p-2 member own", "p-3 member", "p-9 invalid"]);
    });

    test("can be planned, which changes nothing", async () => {
      const place = getPlace();
      const plan = (segmentId: string | null = "s-1", again: string | null = null) =>
        place.warehouse.planPush({ job: job.job, segmentId, source, again });
      await setVips(place, ["p-1", "p-2", "p-3", "p-3", null]);
      expect(await plan(null)).toMatchObject({
        read: 5,
        missing: 1,
        duplicate: 1,
        suppressed: 0,
        unchanged: 0,
        toAdd: 3,
        toRemove: 0,
        own: 0,
        newcomers: 3,
        uncertain: 0,
      });
      const { push, run } = await openPush(place);
      const all = ["p-1", "p-2", "p-3"];
      await push.begin("adding", all, AT);
      expect(await plan()).toMatchObject({ toAdd: 3, newcomers: 3, uncertain: 3 });
      await push.finish(commitOf(run), "adding", all, { ...said, own: new Set(["p-1", "p-2"]) });
      await push.close();

      await setVips(place, ["p-2", "p-4"]);
      const before = [await place.tableNames(), await columnOf(place, members)];
      expect(await plan()).toMatchObject({
        read: 2,
        unchanged: 1,
        toAdd: 1,
        newcomers: 1,
        toRemove: 1,
        own: 2,
      });
      expect(await plan("s-1", "now")).toMatchObject({ unchanged: 0, toAdd: 2, newcomers: 1, toRemove: 1 });
      expect(await plan("s-2")).toMatchObject({ unchanged: 0, toAdd: 2, toRemove: 0, own: 0 });
      expect([await place.tableNames(), await columnOf(place, members)]).toEqual(before);
    });

    test("that was left by a crash is told by those who came since", async () => {
      const place = getPlace();
      await setVips(place, ["p-1", "p-2"]);
      const { push } = await openPush(place);
      await push.begin("adding", ["p-1", "p-2"], AT);
      const next = await openPush(place);
      expect(Date.parse(next.push.uncertainSince ?? "")).toBe(Date.parse("2026-11-21T04:00:00.123Z"));
      await next.push.settleUncertain(commitOf(next.run), new Set(["p-2", "p-7"]));
      expect(await next.push.count()).toMatchObject({ unchanged: 1, toAdd: 1, own: 1 });
      await next.push.close();
      expect(await valueOf(place, members)).toBe("p-2 member own");
    });

    test("neither sends nor keeps people who are erased while it is under way", async () => {
      const place = getPlace();
      await makePeople(place, []);
      await setVips(place, ["p-1", "p-2", "p-3", "p-4", "p-9"]);
      const { push, run } = await openPush(place);
      expect(await push.begin("adding", ["p-4", "p-9"], AT)).toEqual(["p-4", "p-9"]);
      await erase(place, { pids: ["p-2", "p-4", "p-9"] });
      expect(await findTracesAnywhere(place, ["p-2", "p-4", "p-9"])).toEqual([]);
      await push.finish(commitOf(run), "adding", ["p-4", "p-9"], { ...said, invalid: ["p-9"] });
      expect(await push.begin("adding", ["p-1", "p-2", "p-3"], AT)).toEqual(["p-1", "p-3"]);
      await push.finish(commitOf(run), "adding", ["p-1", "p-3"], said);
      expect(await push.next("adding", "", 10)).toEqual([]);
      await place.warehouse.suppressedPids([]);
      expect(await findTracesAnywhere(place, ["p-2", "p-4", "p-9"])).toEqual([]);
      expect(await columnOf(place, members)).toEqual(["p-1 member own", "p-3 member own"]);
      await push.close();

      await setVips(place, ["p-3"]);
      const next = await openPush(place);
      expect(await next.push.next("removing", "", 10)).toEqual(["p-1"]);
      await erase(place, { pids: ["p-1"] });
      expect(await next.push.begin("removing", ["p-1"], AT)).toEqual([]);
      // It is killed here: nobody closes it.
      await erase(place, { pids: ["p-3"] });
      expect(await findTracesAnywhere(place, ["p-1", "p-3"])).toEqual([]);
    });

    test("adds everybody again where that is wanted, and keeps whose own they are", async () => {
      const place = getPlace();
      await setVips(place, ["p-1", "p-2"]);
      const { push, run } = await openPush(place);
      await push.begin("adding", ["p-1", "p-2"], AT);
      await push.finish(commitOf(run), "adding", ["p-1", "p-2"], { ...said, own: new Set(["p-1"]) });
      const again = await openPush(place, "now");
      expect(await again.push.count()).toMatchObject({ unchanged: 0, toAdd: 2 });
      expect(await again.push.next("adding", "", 10)).toEqual([]);
      expect(await again.push.next("again", "", 10)).toEqual(["p-1", "p-2"]);
      await again.push.begin("adding", ["p-1", "p-2"], AT);
      await again.push.finish(commitOf(again.run), "adding", ["p-1", "p-2"], said);
      await again.push.close();
      expect(await columnOf(place, members)).toEqual(["p-1 member own", "p-2 member"]);
    });

    test("that adds everybody again goes on where it was stopped, and sends again what was under way", async () => {
      const place = getPlace();
      await setVips(place, ["p-1", "p-2", "p-3", "p-8", "p-9"]);
      const { push, run } = await openPush(place, "now");
      expect(await push.next("adding", "", 10)).toEqual(["p-1", "p-2", "p-3", "p-8", "p-9"]);
      await push.begin("adding", ["p-1", "p-2", "p-3", "p-8", "p-9"], AT);
      const unknown = { ...said, invalid: ["p-8", "p-9"] };
      await push.finish(commitOf(run), "adding", ["p-1", "p-2", "p-3", "p-8", "p-9"], unknown);
      expect(await push.count()).toMatchObject({ unchanged: 5, toAdd: 0 });
      await push.close();

      const again = await openPush(place, "now");
      const { againSince } = again.push;
      expect(Date.parse(againSince ?? "")).toBeGreaterThan(Date.parse(push.againSince ?? ""));
      expect(await again.push.next("adding", "", 10)).toEqual(["p-8", "p-9"]);
      expect(await again.push.next("again", "", 10)).toEqual(["p-1", "p-2", "p-3"]);
      await again.push.begin("adding", ["p-8"], AT);
      await again.push.finish(commitOf(again.run), "adding", ["p-8"], { ...said, invalid: ["p-8"] });
      await again.push.begin("adding", ["p-1"], AT);
      await again.push.finish(commitOf(again.run), "adding", ["p-1"], said);
      await again.push.begin("adding", ["p-2"], AT);
      await again.push.close();

      await place.sql("INSERT INTO crm.vip (pid) VALUES ('p-4')");
      const next = await openPush(place, againSince);
      expect(Date.parse(next.push.againSince ?? "")).toBe(Date.parse(againSince ?? ""));
      expect(next.push.uncertainSince).toBe(null);
      expect(await next.push.count()).toMatchObject({ unchanged: 2, toAdd: 4 });
      expect(await next.push.next("adding", "", 10)).toEqual(["p-4", "p-9"]);
      expect(await next.push.next("again", "", 10)).toEqual(["p-2", "p-3"]);
      await next.push.close();

      const ahead = await openPush(place, "2999-01-01T00:00:00+00:00");
      expect(Date.parse(ahead.push.againSince ?? "")).toBeLessThan(Date.parse("2999-01-01"));
      await ahead.push.close();
    });

    test("resolves the reject of who has become known, and tells which call refused the others", async () => {
      const place = getPlace();
      await setVips(place, ["p-8", "p-9"]);
      for (const [i, invalid] of [["p-8", "p-9"], ["p-9"], []].entries()) {
        const { push, run } = await openPush(place, "now");
        await push.begin("adding", ["p-8", "p-9"], AT);
        const outcome = { ...said, invalid, apiRequestId: `req-${i}` };
        await push.finish(commitOf(run), "adding", ["p-8", "p-9"], outcome);
        await push.close();
        const open =
          "SELECT source_key || ' ' || api_request_id FROM person_data.reject WHERE resolved_at IS NULL";
        expect(await columnOf(place, `${open} ORDER BY 1`)).toEqual(invalid.map((pid) => `${pid} req-0`));
      }
      expect(await valueOf(place, "SELECT count(*) FROM person_data.reject")).toBe("2");
    });

    test("keeps whose own those are who were to be removed, then added again, when a crash came", async () => {
      const place = getPlace();
      await setVips(place, ["p-1", "p-2"]);
      const { push, run } = await openPush(place);
      await push.begin("adding", ["p-1", "p-2"], AT);
      await push.finish(commitOf(run), "adding", ["p-1", "p-2"], said);
      await push.begin("removing", ["p-1", "p-2"], AT);
      await push.close();
      const back = await openPush(place);
      expect(await back.push.next("adding", "", 10)).toEqual(["p-1", "p-2"]);
      await back.push.begin("adding", ["p-1", "p-2"], AT);
      await back.push.close();

      await setVips(place, ["p-1"]);
      const next = await openPush(place);
      await next.push.settleUncertain(commitOf(next.run), new Set());
      expect(await next.push.next("adding", "", 10)).toEqual(["p-1"]);
      expect(await next.push.next("removing", "", 10)).toEqual(["p-2"]);
      await next.push.begin("adding", ["p-1"], AT);
      await next.push.finish(commitOf(next.run), "adding", ["p-1"], { ...said, own: new Set() });
      await next.push.close();
      expect(await columnOf(place, members)).toEqual(["p-1 member own", "p-2 removing own"]);
    });
  });
}
