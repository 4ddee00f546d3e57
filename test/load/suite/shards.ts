import { recordsOf } from "../../support/keyed-records.ts";
import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { addPeople, enrichSpec, makePeople, people, validateSpec } from "./people.ts";
import {
  begin,
  countersOf,
  endOf,
  gist,
  matchAll,
  type Night,
  runNight,
  runOf,
  seizeShard,
} from "./nights.ts";
import { columnOf, type GetPlace, type Place, valueOf } from "./place.ts";
import type { LookupSpec } from "../../../src/load/due/lookup-spec.ts";

/** One shard of a job. */
function shardOf(spec: LookupSpec, index: number, count: number): LookupSpec {
  return { ...spec, shard: { index, count, by: [Object.keys(spec.input.fields)] } };
}

/** Runs all shards of a job, one after the other. */
async function runShards(place: Place, spec: LookupSpec, count: number): Promise<readonly Night[]> {
  const nights: Night[] = [];
  for (let i = 0; i < count; i++) nights.push(await runNight(place, shardOf(spec, i, count), matchAll));
  return nights;
}

const spec = enrichSpec();
const twenty = Array.from({ length: 20 }, (_, i) => ({ id: String(i + 1), first_name: `Ann ${i}` }));

const sum = (nights: readonly Night[], countOf: (night: Night) => number): number =>
  nights.reduce((total, night) => total + countOf(night), 0);

/** Rows that each of two shards reads. */
async function answerOneOf(place: Place): Promise<readonly number[]> {
  await makePeople(place, [{ id: "1", first_name: "Ann" }]);
  await runNight(place, spec, matchAll);
  const plans = await Promise.all([0, 1].map((i) => place.warehouse.planLookup(shardOf(spec, i, 2))));
  return plans.map((plan) => plan.read);
}

/** Runs a shard and ends it with the coverage of its rows. */
async function end(
  place: Place,
  index: number,
  count: number,
  status: "succeeded" | "failed",
): Promise<void> {
  const shard = count === 1 ? spec : shardOf(spec, index, count);
  const run = await begin(place.warehouse, shard, randomUUID());
  const selection = await place.warehouse.selectLookup(shard, run);
  await selection.close();
  const coverage = { answered: 0, matched: 0, unmatched: 0, rejected: 0, due: 0 };
  await place.warehouse.endRun(
    run,
    { ...endOf(selection.counts), status, counters: countersOf({}) },
    { source: "people", inputRows: selection.counts.read, ...coverage },
  );
}

const coverageOf = async (place: Place) => {
  const { coverage } = await place.warehouse.jobStatus(spec.job);
  return coverage && [coverage.inputRows, coverage.shardsCounted, coverage.shards];
};

/** Tests of `--shard`: several processes, each with a part of the input. */
export function describeShards(getPlace: GetPlace): void {
  describe("shards", () => {
    test("each look at their own rows only", async () => {
      const place = getPlace();
      await makePeople(place, twenty);
      const nights = await runShards(place, spec, 3);
      expect(nights.every((night) => night.counts.read < 20)).toBe(true);
      expect(sum(nights, (night) => night.counts.read)).toBe(20);
      expect(nights.flatMap((night) => Object.keys(night.sent)).toSorted()).toEqual(
        twenty.map(({ id }) => id).toSorted(),
      );
    });

    test("leave the parts of those that never ran to the next run", async () => {
      const place = getPlace();
      await makePeople(place, twenty);
      const first = await runNight(place, shardOf(spec, 1, 3), matchAll);
      const rest = await runNight(place, spec, matchAll);
      expect(first.counts.read).toBeGreaterThan(0);
      expect(rest.counts).toMatchObject({
        read: 20,
        unchanged: first.counts.read,
        toSend: 20 - first.counts.read,
      });
    });

    test("take the fresh answer of an equal row from any shard", async () => {
      const place = getPlace();
      await makePeople(place, [{ id: "1", first_name: "Ann" }]);
      await runNight(place, spec, matchAll);
      await addPeople(place, [{ id: "2", first_name: "Ann" }]);
      const nights = await runShards(place, spec, 2);
      expect(sum(nights, (night) => night.counts.reused)).toBe(1);
      expect(sum(nights, (night) => night.counts.toSend)).toBe(0);
    });

    test("each take the first rows of their own under a cap", async () => {
      const place = getPlace();
      await makePeople(place, twenty);
      const ordered = enrichSpec({ input: { ...people, orderBy: "id::int DESC" } });
      const whole = await runShards(place, { ...ordered, maxRecords: 2 }, 2);
      expect(whole.map((night) => night.counts.toSend)).toEqual([2, 2]);
      const sent = whole.map((night) => Object.keys(night.sent).map(Number));
      for (const [i, keys] of sent.entries()) {
        const rest = await runNight(place, shardOf(ordered, i, 2), matchAll);
        expect(Math.min(...keys)).toBeGreaterThan(Math.max(...Object.keys(rest.sent).map(Number)));
      }
    });

    test("keep one open reject for each row that can't be used, whatever the number of shards", async () => {
      const place = getPlace();
      const long = "x".repeat(2001);
      await makePeople(place, [
        { id: null, first_name: "Ann" },
        { id: null, first_name: "Bob" },
        { id: `${long}1`, first_name: "Cid" },
        { id: `${long}2`, first_name: "Dan" },
        { id: "1", first_name: "Eve" },
        { id: "1", first_name: "Fay" },
        { id: "2" },
      ]);
      const open = () =>
        columnOf(place, "SELECT code FROM person_data.reject WHERE resolved_at IS NULL ORDER BY code");
      const codes = [
        "duplicate_key",
        "key_too_long",
        "key_too_long",
        "missing_key",
        "missing_key",
        "no_identifier",
      ];
      for (const count of [3, 3, 1, 2]) {
        await runShards(place, spec, count);
        expect(await open()).toEqual(codes);
      }
      expect(await valueOf(place, "SELECT count(*) FROM person_data.reject")).toBe("6");
      await place.sql("DELETE FROM crm.people WHERE id IS NULL AND first_name = 'Bob'");
      await runShards(place, spec, 3);
      expect(await open()).toEqual(codes.toSpliced(3, 1));
    });

    test("record the addresses of each row once among them", async () => {
      const place = getPlace();
      const job = validateSpec({ input: { ...people, fields: { emails: ["email", "note"] } } });
      const rows = twenty.map(({ id }) => ({ id, email: `${id}@example.com`, note: "all@example.com" }));
      await makePeople(place, rows);
      const nights = await runShards(place, job, 3);
      expect(sum(nights, (night) => night.counts.read)).toBe(40);
      expect(sum(nights, (night) => night.counts.toSend)).toBe(21);
      expect(await valueOf(place, "SELECT count(*) FROM person_data.input_email")).toBe("40");
      await place.sql("UPDATE crm.people SET note = NULL");
      await runShards(place, job, 2);
      expect(await valueOf(place, "SELECT count(*) FROM person_data.input_email")).toBe("20");
    });

    test("neither move the cursor nor go by it", async () => {
      const place = getPlace();
      const input = { ...people, cursor: { column: "updated_at", overlapMs: 0 } };
      const job = enrichSpec({ input });
      const cursor = () => columnOf(place, `SELECT "cursor"->>'value' FROM person_data_ops.checkpoint`);
      await makePeople(
        place,
        twenty.map((row) => ({ ...row, updated_at: "2026-11-01T00:00:00Z" })),
      );
      await runShards(place, job, 2);
      expect(await cursor()).toEqual([]);
      await runNight(place, job, matchAll);
      expect(await cursor()).toEqual(["2026-11-01 00:00:00+00"]);
      await addPeople(place, [{ id: "21", first_name: "Bob", updated_at: "2026-11-09T00:00:00Z" }]);
      await place.sql(
        "UPDATE crm.people SET first_name = 'Changed', updated_at = '2020-01-01' WHERE id = '3'",
      );
      const nights = await runShards(place, job, 2);
      expect(nights.flatMap((night) => Object.keys(night.sent)).toSorted()).toEqual(["21", "3"]);
      expect(await cursor()).toEqual(["2026-11-01 00:00:00+00"]);
    });
  });

  describe("changed parameters in shards", () => {
    const other = enrichSpec({ parametersHash: "bought with those" });

    test("stop every shard, also one without a row of those that were bought", async () => {
      const place = getPlace();
      expect((await answerOneOf(place)).toSorted((a, b) => a - b)).toEqual([0, 1]);
      for (const i of [0, 1]) {
        const { counts } = await runNight(place, shardOf(other, i, 2), matchAll);
        expect(counts.parametersChanged).toBe(1);
      }
      expect(await columnOf(place, "SELECT parameters_hash FROM person_data_state.job_parameters")).toEqual([
        "bought with these",
      ]);
    });

    test.each(["keep", "resend"] as const)("are accepted once for all of them (%s)", async (word) => {
      const place = getPlace();
      await makePeople(place, twenty);
      await runNight(place, spec, matchAll);
      await place.sql("UPDATE crm.people SET first_name = first_name || '!'");
      const decided = await runNight(place, shardOf({ ...other, acceptParameters: word }, 0, 2), matchAll);
      const undecided = await runNight(place, shardOf(other, 1, 2), matchAll);
      expect(undecided.counts.parametersChanged).toBe(0);
      expect(sum([decided, undecided], (night) => night.counts.toSend)).toBe(word === "keep" ? 0 : 20);
      expect(gist((await runNight(place, other)).counts)).toEqual({ read: 20, unchanged: 20 });
    });

    test("are accepted by shards that begin at the same time", async () => {
      const place = getPlace();
      await makePeople(place, twenty);
      await runNight(place, spec, matchAll);
      const shards = [0, 1, 2, 3].map((i) => shardOf({ ...other, acceptParameters: "keep" }, i, 4));
      const counts = await Promise.all(
        shards.map(async (shard) => {
          const run = await begin(place.warehouse, shard, randomUUID());
          const selection = await place.warehouse.selectLookup(shard, run);
          await selection.close();
          return selection.counts;
        }),
      );
      expect(counts.reduce((total, { unchanged }) => total + unchanged, 0)).toBe(20);
    });
  });

  describe("totals of shards", () => {
    test("cover the whole input once every shard has ended, and until then the last whole run", async () => {
      const place = getPlace();
      await makePeople(place, twenty);
      await end(place, 0, 3, "succeeded");
      await end(place, 1, 3, "failed");
      const partly = await coverageOf(place);
      expect(partly?.slice(1)).toEqual([2, 3]);
      expect(partly?.[0]).toBeLessThan(20);
      await end(place, 2, 3, "succeeded");
      expect(await coverageOf(place)).toEqual([20, 3, 3]);
      await place.sql("DELETE FROM crm.people WHERE id = '1'");
      await end(place, 0, 1, "succeeded");
      expect(await coverageOf(place)).toEqual([19, 1, 1]);
      await place.sql("DELETE FROM crm.people WHERE id = '2'");
      await end(place, 0, 2, "succeeded");
      expect(await coverageOf(place)).toEqual([19, 1, 1]);
      await end(place, 1, 2, "succeeded");
      expect(await coverageOf(place)).toEqual([18, 2, 2]);
    });

    test("show the newest run of each shard, and a success only once all have succeeded", async () => {
      const place = getPlace();
      await makePeople(place, twenty);
      const fresh = () =>
        valueOf(
          place,
          "SELECT min(last_success_at) FROM person_data_state.table_load WHERE table_name = 'person'",
        );
      await end(place, 1, 2, "failed");
      await end(place, 0, 2, "succeeded");
      const first = await place.warehouse.jobStatus(spec.job);
      expect(first.lastPass.map((run) => [run.shard, run.status])).toEqual([
        ["0/2", "succeeded"],
        ["1/2", "failed"],
      ]);
      expect([first.lastSuccessAt, await fresh()]).toEqual([null, null]);
      await end(place, 1, 2, "succeeded");
      const second = await place.warehouse.jobStatus(spec.job);
      expect(second.lastPass.map((run) => run.status)).toEqual(["succeeded", "succeeded"]);
      expect(second.lastRun?.shard).toBe("1/2");
      expect(second.lastSuccessAt).toBe(second.lastPass[0]?.finishedAt);
      expect((await fresh())?.replace(" ", "T").replace("+00", "Z")).toBe(second.lastSuccessAt);
    });

    test("are closed by a run of another number, and the work tables dropped with them, siblings' aside", async () => {
      const place = getPlace();
      await makePeople(place, twenty);
      const freeze = async (shard: LookupSpec, runId: string) => {
        const run = await begin(place.warehouse, shard, runId);
        return place.warehouse.selectLookup(shard, run);
      };
      const shared = randomUUID();
      const workTables = async () =>
        (await place.tableNames()).filter((name) => /^(lookup|_etl_select)_work_/.test(name));
      await freeze(shardOf(spec, 0, 2), shared);
      const living = await freeze(shardOf(spec, 1, 2), shared);
      // The first process is dead.
      await seizeShard(place.warehouse, runOf(shardOf(spec, 0, 2)));
      await freeze(shardOf(spec, 0, 2), randomUUID());
      expect(await workTables()).toHaveLength(2);
      expect((await recordsOf(place.warehouse.db, living)).length).toBe(living.counts.toSend);

      await place.sql("UPDATE person_data_ops.sync_run SET status = 'failed' WHERE shard = '0/2'");
      await freeze(shardOf(spec, 1, 2), shared);
      expect(await workTables()).toHaveLength(1);

      const alone = await freeze(spec, randomUUID());
      expect(await columnOf(place, "SELECT status FROM person_data_ops.sync_run ORDER BY status")).toEqual([
        "failed",
        "failed",
        "failed",
        "running",
      ]);
      expect(await workTables()).toHaveLength(1);
      expect(alone.counts.read).toBe(20);
      await alone.close();
    });
  });
}
