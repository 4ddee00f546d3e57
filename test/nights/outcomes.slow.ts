import { describe, expect, test } from "vitest";
import { testNights } from "./cases.ts";
import { names, openWorld, summaryOf } from "./night.ts";
import type { Call, Fate, Script } from "./scripted-service.ts";

/** Fates of the first calls; later ones are answered as usual. */
const first = (...fates: readonly Fate[]): Script => ({ call: ({ index }: Call) => fates[index] });
const always = (fate: Fate): Script => ({ call: () => fate });

const many = (count: number) =>
  `INSERT INTO crm.customers SELECT i, 'Ann' || i FROM generate_series(1, ${count}) AS i`;
const capacity = (records: number): Fate => ({
  status: 402,
  body: {
    code: "insufficient_record_capacity",
    message: "no capacity",
    api_request_id: "r",
    details: { records_available: records, records_requested: 3 },
  },
});

for (const [fate, billed] of [
  ["reply_lost", ["Ann", "Ann"]],
  ["cut", ["Ann", "Ann"]],
  ["no_results", ["Ann", "Ann"]],
  [{ status: 500 }, ["Ann"]],
] as const) {
  testNights("a call whose outcome is unknown", {
    [`(${JSON.stringify(fate)}) is made once more, and counts as possibly billed`]: [
      {
        edit: names("Ann"),
        service: first(fate),
        sent: ["Ann", "Ann"],
        billed: { enrich: billed },
        ends: "1 read, 1 sent, 1 matched",
        tables: {
          "SELECT attempt, possibly_billed FROM api_call": ["1|t", "2|f"],
          "SELECT requests, retries, possibly_billed_twice FROM sync_run": ["2|1|1"],
        },
      },
      { ends: "1 read, 1 unchanged" },
    ],
  });
}
for (const fate of ["reply_lost", "no_results"] as const) {
  testNights("a call whose outcome is unknown", {
    [`(${fate}) twice is not made a third time in the run, and its records stay due`]: [
      {
        edit: names("Ann", "Bob"),
        service: always(fate),
        sent: ["Ann", "Ann", "Bob", "Bob"],
        ends: "failed",
        tables: { "SELECT count(*) FROM enrichment": ["0"], "SELECT count(*) FROM reject": ["0"] },
      },
      { sent: ["Ann", "Bob"], ends: "2 read, 2 sent, 2 matched" },
      { ends: "2 read, 2 unchanged" },
    ],
  });
}

testNights("a call that certainly wasn't billed", {
  "without permission ends the job and leaves its records due": [
    { edit: names("Ann"), service: always({ status: 403 }), sent: ["Ann"], ends: "failed" },
    { sent: ["Ann"] },
  ],
  "for its size is made again in parts": [
    {
      edit: names("Ann", "Bob", "Cid", "Dan"),
      service: { call: ({ records }) => (records.length > 2 ? { status: 413 } : undefined) },
      sent: ["Ann", "Ann", "Bob", "Bob", "Cid", "Cid", "Dan", "Dan"],
      billed: { enrich: ["Ann", "Bob", "Cid", "Dan"] },
      ends: "4 read, 4 sent, 4 matched",
      calls: 3,
    },
  ],
});
for (const status of [429, 503]) {
  testNights("a call that certainly wasn't billed", {
    [`(${status}) is made until it is answered, and isn't possibly billed`]: [
      {
        edit: names("Ann"),
        service: first({ status }, { status }, { status }),
        sent: ["Ann", "Ann", "Ann", "Ann"],
        billed: { enrich: ["Ann"] },
        ends: "1 read, 1 sent, 1 matched",
        tables: { "SELECT count(*) FROM api_call WHERE possibly_billed": ["0"] },
      },
    ],
  });
}

testNights("a missing result", {
  "is asked for once more, then rejected": [
    {
      edit: names("Ann", "Bob", "Lost"),
      sent: ["Ann", "Bob", "Lost", "Lost"],
      ends: "3 read, 3 sent, 2 matched, 1 rejected",
      tables: { "SELECT source_key, stage, code FROM reject": ["3|answer|missing_result"] },
    },
    { ends: "3 read, 3 unchanged" },
  ],
  "of most records is no answer for those: they stay due, and nobody is rejected": [
    {
      edit: names("Ann", "Lost 1", "Lost 2", "Lost 3"),
      sent: "any",
      ends: "failed",
      tables: {
        "SELECT source_key FROM enrichment": ["1"],
        "SELECT count(*) FROM reject": ["0"],
      },
    },
  ],
  "doesn't move the others: results are paired by record_id, in any order": [
    {
      edit: names("Ann", "Bob", "Cid", "Dan", "Lost"),
      service: { reorders: true },
      sent: ["Ann", "Bob", "Cid", "Dan", "Lost", "Lost"],
      tables: {
        "SELECT source_key, service_pid FROM enrichment": ["1|p-ann", "2|p-bob", "3|p-cid", "4|p-dan"],
      },
      ends: "5 read, 5 sent, 4 matched, 1 rejected",
    },
  ],
});

testNights("402", {
  "drains: what the plan covers is sent, the rest stays due": [
    {
      edit: names("Ann", "Bob", "Cid"),
      service: { call: ({ index }) => (index === 1 ? undefined : capacity(index === 0 ? 2 : 0)) },
      sent: "any",
      calls: 3,
      ends: "limited",
      tables: {
        "SELECT limited_by FROM sync_run": ["credits"],
        "SELECT count(*) FROM enrichment": ["2"],
      },
    },
    { sent: "any", ends: "3 read, 2 unchanged, 1 sent, 1 matched" },
  ],
  "without any capacity sends nothing more, and the next run goes on": [
    { edit: names("Ann"), service: always(capacity(0)), sent: "any", billed: {}, ends: "limited" },
    { sent: ["Ann"], ends: "1 read, 1 sent, 1 matched" },
  ],
});

describe("a stop by a signal", () => {
  test("keeps what was answered, and the next run sends the rest", async () => {
    const world = await openWorld();
    const stopped = await world.night({ edit: many(3000), stopAt: 2 });
    const [job] = stopped.report?.jobs ?? [];
    expect(job?.status).toBe("interrupted");
    const answered = Number((await world.lines("SELECT count(*) FROM enrichment"))[0]);
    expect(answered).toBe(stopped.billed.enrich?.length);
    const next = await world.night();
    expect((next.sent.enrich?.length ?? 0) + answered).toBe(3000);
    expect(next.report?.jobs.map(summaryOf)).toEqual([
      `3000 read, ${answered} unchanged, ${3000 - answered} sent, ${3000 - answered} matched`,
    ]);
  });
});
