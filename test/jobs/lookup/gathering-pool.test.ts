import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import { openCommitPool } from "../../../src/jobs/lookup/commit-pool.ts";
import { createOutage } from "../../../src/jobs/outage.ts";
import type { CommitHead, LookupPart } from "../../../src/load/warehouse.ts";
import type { CommitResult, LookupRecord } from "../../../src/load/warehouse.ts";
import { silentLog } from "../../../src/log.ts";
import * as fc from "../../support/fast-check.ts";

/** A call of so many records, asked by a run. */
interface Call {
  readonly id: number;
  readonly run: string;
  readonly records: number;
}

const record: LookupRecord = {
  recordId: "1",
  json: "",
  sentHash: "",
  sentPid: null,
  rows: [],
  occurrences: 1,
};

function headOf({ run }: Call): CommitHead {
  const spec = {
    job: "enrich_people",
    type: "enrich",
    input: { name: "people" },
    refreshAfterMs: null,
    refreshUnmatchedAfterMs: null,
    parametersHash: "",
  } as const;
  return { run: { runId: run, job: spec.job, jobType: spec.type, shard: "0/1", epoch: 1 }, spec };
}

function partOf({ records }: Call): LookupPart {
  const reject = { record, stage: "send", code: "", message: "", details: null, apiRequestId: null } as const;
  return {
    ledger: [],
    answers: [],
    rejects: Array.from({ length: records }, () => reject),
    drift: [],
    counters: {},
  };
}

/** A warehouse that gathers, and what it was told; `onCommit` may take its time or fail. */
function openPool(options: {
  readonly maxRecords?: number;
  readonly maxAgeMs?: number;
  readonly onCommit?: (run: string, records: number) => Promise<void>;
}) {
  const told = { open: 0, discarded: 0, committing: 0, batches: [] as { run: string; records: number }[] };
  const result: CommitResult = { rowsWritten: 0, notLoadable: [] };
  const committed: number[] = [];
  const pool = openCommitPool<Call, number>({
    clock: systemClock,
    outage: createOutage({
      clock: systemClock,
      log: silentLog,
      signal: new AbortController().signal,
      retryForMs: 0,
      job: "enrich_people",
    }),
    warehouse: {
      parallelCommits: 1,
      gathering: { maxRecords: options.maxRecords ?? 10, maxAgeMs: options.maxAgeMs ?? 60_000 },
      commitLookup: () => Promise.reject(new Error("never asked for one call alone")),
      async openCommit({ run }) {
        let records = 0;
        told.open += 1;
        await delay(0);
        return {
          add: async (part) => {
            await delay(0);
            records += part.rejects.length;
          },
          commit: async () => {
            told.committing += 1;
            expect(told.committing).toBe(1);
            try {
              await options.onCommit?.(run.runId, records);
              told.batches.push({ run: run.runId, records });
              return result;
            } finally {
              told.committing -= 1;
            }
          },
          discard: async () => void (told.discarded += 1),
        };
      },
    },
    headOf,
    partOf,
    keep: ({ id }) => id,
    committed: async (ids) => void committed.push(...ids),
  });
  return { pool, told, committed };
}

describe("calls that are gathered", () => {
  test("are committed once each, in order, one batch at a time, each batch of one run and within its bound", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ run: fc.constantFrom("a", "b"), records: fc.integer({ min: 0, max: 12 }) }), {
          maxLength: 40,
        }),
        fc.integer({ min: 0, max: 2 }),
        async (calls, pace) => {
          const { pool, told, committed } = openPool({ onCommit: () => delay(pace) });
          for (const [id, call] of calls.entries()) await pool.push({ id, ...call });
          await pool.drain();
          expect(committed).toEqual(calls.map((_, id) => id));
          expect(pool.left()).toEqual([]);
          // The call that passes the bound is the last one.
          for (const { records } of told.batches) expect(records).toBeLessThan(10 + 12);
          const changes = calls.filter(({ run }, i) => i > 0 && run !== calls[i - 1]?.run).length;
          expect(told.batches.length).toBeGreaterThanOrEqual(calls.length === 0 ? 0 : changes + 1);
        },
      ),
      { numRuns: 50 },
    );
  });

  test("are committed when they are old, though nothing more comes", async () => {
    const { pool, committed } = openPool({ maxAgeMs: 20 });
    await pool.push({ id: 1, run: "a", records: 1 });
    expect(committed).toEqual([]);
    while (committed.length === 0) await delay(5);
    expect(committed).toEqual([1]);
    await pool.drain();
  });

  test("of which a commit fails are told as left, and so is what came after it", async () => {
    const { pool, told, committed } = openPool({
      maxRecords: 2,
      onCommit: async (_, records) => {
        await delay(1);
        if (records === 3) throw new Error("no room");
      },
    });
    const push = (id: number, records: number) => pool.push({ id, run: "a", records });
    await push(1, 2);
    await push(2, 3);
    await expect(
      (async () => {
        for (let id = 3; ; id++) await push(id, 1);
      })(),
    ).rejects.toThrow("no room");
    await expect(pool.drain()).rejects.toThrow("no room");
    expect(committed).toEqual([1]);
    const left = [...pool.left()].toSorted((a, b) => a - b);
    expect(left.slice(0, 2)).toEqual([2, 3]);
    expect(new Set(left).size).toBe(left.length);
    expect(told.discarded).toBe(told.open - 1);
  });
});
