import { recordsOf } from "../../support/keyed-records.ts";
import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { enrichSpec, makePeople, people } from "./people.ts";
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
import { columnOf, type GetContext, type Context, valueOf } from "./context.ts";
import type { LookupSpec } from "../../../src/load/lookups/lookup.ts";

/** One shard of a job. */
function shardOf(spec: LookupSpec, index: number, count: number): LookupSpec {
  return { ...spec, shard: { index, count } };
}

/** Runs all shards of a job, one after the other. */
async function runShards(context: Context, spec: LookupSpec, count: number): Promise<readonly Night[]> {
  const nights: Night[] = [];
  for (let i = 0; i < count; i++) nights.push(await runNight(context, shardOf(spec, i, count), matchAll));
  return nights;
}

const spec = enrichSpec();
const twenty = Array.from({ length: 20 }, (_, i) => ({ id: String(i + 1), first_name: `Ann ${i}` }));

const sum = (nights: readonly Night[], countOf: (night: Night) => number): number =>
  nights.reduce((total, night) => total + countOf(night), 0);

/** Rows that each of two shards reads. */
async function answerOneOf(context: Context): Promise<readonly number[]> {
  await makePeople(context, [{ id: "1", first_name: "Ann" }]);
  await runNight(context, spec, matchAll);
  const plans = await Promise.all([0, 1].map((i) => context.warehouse.previewLookup(shardOf(spec, i, 2), 0)));
  return plans.map(({ counts }) => counts.read);
}

/** Runs a shard and ends it with the coverage of its rows. */
async function end(
  context: Context,
  index: number,
  count: number,
  status: "succeeded" | "failed",
): Promise<void> {
  const shard = count === 1 ? spec : shardOf(spec, index, count);
  const run = await begin(context.warehouse, shard, randomUUID());
  const selection = await context.warehouse.selectLookup(shard, run);
  await selection.close();
  const coverage = { answered: 0, matched: 0, unmatched: 0, rejected: 0, due: 0, oldestAnswerAt: null };
  await context.warehouse.endRun(
    run,
    { ...endOf(selection.counts), status, counters: countersOf({}) },
    { source: "people", inputRows: selection.counts.read, ...coverage },
  );
}

const coverageOf = async (context: Context) => {
  const { coverage } = await context.warehouse.jobStatus(spec.job);
  return coverage && [coverage.inputRows, coverage.shardsCounted, coverage.shards];
};

/** Tests of `--shard`: several processes, each with a part of the input. */
export function describeShards(getContext: GetContext): void {
  describe("shards", () => {
    test("each take the first rows of their own under a cap", async () => {
      const context = getContext();
      await makePeople(context, twenty);
      const ordered = enrichSpec({ input: { ...people, orderBy: "id::int DESC" } });
      const whole = await runShards(context, { ...ordered, maxRecords: 2 }, 2);
      expect(whole.map((night) => night.counts.toSend)).toEqual([2, 2]);
      const sent = whole.map((night) => Object.keys(night.sent).map(Number));
      for (const [i, keys] of sent.entries()) {
        const rest = await runNight(context, shardOf(ordered, i, 2), matchAll);
        expect(Math.min(...keys)).toBeGreaterThan(Math.max(...Object.keys(rest.sent).map(Number)));
      }
    });

    test("keep one open reject for each row that can't be used, whatever the number of shards", async () => {
      const context = getContext();
      const long = "x".repeat(2001);
      await makePeople(context, [
        { id: null, first_name: "Ann" },
        { id: null, first_name: "Bob" },
        { id: `${long}1`, first_name: "Cid" },
        { id: `${long}2`, first_name: "Dan" },
        { id: "1", first_name: "Eve" },
        { id: "1", first_name: "Fay" },
        { id: "2" },
      ]);
      const open = () =>
        columnOf(context, "SELECT code FROM person_data.reject WHERE resolved_at IS NULL ORDER BY code");
      const codes = [
        "duplicate_key",
        "key_too_long",
        "key_too_long",
        "missing_key",
        "missing_key",
        "no_identifier",
      ];
      for (const count of [3, 3, 1, 2]) {
        await runShards(context, spec, count);
        expect(await open()).toEqual(codes);
      }
      expect(await valueOf(context, "SELECT count(*) FROM person_data.reject")).toBe("6");
      await context.sql("DELETE FROM crm.people WHERE id IS NULL AND first_name = 'Bob'");
      await runShards(context, spec, 3);
      expect(await open()).toEqual(codes.toSpliced(3, 1));
    });
  });

  describe("changed parameters in shards", () => {
    const other = enrichSpec({ kind: "enrich:others" });

    test("stop every shard, also one without a row of those that were bought", async () => {
      const context = getContext();
      expect((await answerOneOf(context)).toSorted((a, b) => a - b)).toEqual([0, 1]);
      for (const i of [0, 1]) {
        const { counts } = await runNight(context, shardOf(other, i, 2), matchAll);
        expect(counts.parametersChanged).toBe(1);
      }
      expect(await columnOf(context, "SELECT kind FROM person_data_state.lookup_job")).toEqual([
        "enrich:these",
      ]);
    });

    test.each(["keep", "resend"] as const)("are accepted once for all of them (%s)", async (word) => {
      const context = getContext();
      await makePeople(context, twenty);
      await runNight(context, spec, matchAll);
      const decided = await runNight(context, shardOf({ ...other, acceptParameters: word }, 0, 2), matchAll);
      const undecided = await runNight(context, shardOf(other, 1, 2), matchAll);
      expect(undecided.counts.parametersChanged).toBe(0);
      expect(sum([decided, undecided], (night) => night.counts.toSend)).toBe(word === "keep" ? 0 : 20);
      expect(gist((await runNight(context, other)).counts)).toEqual({ read: 20, unchanged: 20 });
    });

    test("are accepted by shards that begin at the same time", async () => {
      const context = getContext();
      await makePeople(context, twenty);
      await runNight(context, spec, matchAll);
      const shards = [0, 1, 2, 3].map((i) => shardOf({ ...other, acceptParameters: "keep" }, i, 4));
      const counts = await Promise.all(
        shards.map(async (shard) => {
          const run = await begin(context.warehouse, shard, randomUUID());
          const selection = await context.warehouse.selectLookup(shard, run);
          await selection.close();
          return selection.counts;
        }),
      );
      expect(counts.reduce((total, { unchanged }) => total + unchanged, 0)).toBe(20);
    });
  });

  describe("totals of shards", () => {
    test("cover the whole input once every shard has ended, and until then the last whole run", async () => {
      const context = getContext();
      await makePeople(context, twenty);
      await end(context, 0, 3, "succeeded");
      await end(context, 1, 3, "failed");
      const partly = await coverageOf(context);
      expect(partly?.slice(1)).toEqual([2, 3]);
      expect(partly?.[0]).toBeLessThan(20);
      await end(context, 2, 3, "succeeded");
      expect(await coverageOf(context)).toEqual([20, 3, 3]);
      await context.sql("DELETE FROM crm.people WHERE id = '1'");
      await end(context, 0, 1, "succeeded");
      expect(await coverageOf(context)).toEqual([19, 1, 1]);
      await context.sql("DELETE FROM crm.people WHERE id = '2'");
      await end(context, 0, 2, "succeeded");
      expect(await coverageOf(context)).toEqual([19, 1, 1]);
      await end(context, 1, 2, "succeeded");
      expect(await coverageOf(context)).toEqual([18, 2, 2]);
    });

    test("show the newest run of each shard, and a success only once all have succeeded", async () => {
      const context = getContext();
      await makePeople(context, twenty);
      const fresh = () =>
        valueOf(
          context,
          "SELECT min(last_success_at) FROM person_data_state.table_load WHERE table_name = 'person'",
        );
      await end(context, 1, 2, "failed");
      await end(context, 0, 2, "succeeded");
      const first = await context.warehouse.jobStatus(spec.job);
      expect(first.lastPass.map((run) => [run.shard, run.status])).toEqual([
        ["0/2", "succeeded"],
        ["1/2", "failed"],
      ]);
      expect([first.lastSuccessAt, await fresh()]).toEqual([null, null]);
      await end(context, 1, 2, "succeeded");
      const second = await context.warehouse.jobStatus(spec.job);
      expect(second.lastPass.map((run) => run.status)).toEqual(["succeeded", "succeeded"]);
      expect(second.lastRun?.shard).toBe("1/2");
      expect(second.lastSuccessAt).toBe(second.lastPass[0]?.finishedAt);
      expect((await fresh())?.replace(" ", "T").replace("+00", "Z")).toBe(second.lastSuccessAt);
    });

    test("leave the claims of a sibling alone when another one is taken over", async () => {
      const context = getContext();
      await makePeople(context, twenty);
      const select = async (shard: LookupSpec, runId: string) => {
        const run = await begin(context.warehouse, shard, runId);
        return context.warehouse.selectLookup(shard, run);
      };
      const shared = randomUUID();
      await select(shardOf(spec, 0, 2), shared);
      const living = await select(shardOf(spec, 1, 2), shared);
      // The first process is dead.
      await seizeShard(context.warehouse, runOf(shardOf(spec, 0, 2)));
      const successor = await select(shardOf(spec, 0, 2), randomUUID());
      expect(await recordsOf(context.warehouse.db, spec, living)).toHaveLength(living.counts.toSend);
      expect(living.counts.toSend + successor.counts.toSend).toBe(20);
    });
  });
}
