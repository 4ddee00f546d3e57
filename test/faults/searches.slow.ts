import { describe, expect, test } from "vitest";
import {
  budgetUse,
  callsOf,
  membersOfService,
  runAudiences,
  searchesOfService,
  startAudience,
  audiencesOf,
  storedMembers,
  UNLOCK,
  unlocksInLedger,
} from "../jobs/search/audience-world.ts";

/** Faults of any endpoint, each of one request in ten or so. */
const FAULTS = [
  "429",
  "429_bare",
  "500",
  "502",
  "503",
  "504",
  "slow_body",
  "cut_before",
  "cut_body",
  "truncated_json",
  "reply_lost",
  "unknown_fields",
  "utc_times",
  "legacy_errors",
  "status_code_errors",
  "shuffled",
  "duplicated",
  "missing",
] as const;
/** About 1,000 people. */
const QUERY = "teachers or nurses";
const everybody = audiencesOf(
  `teachers: { query: ${QUERY}, unlock: { max_billable: 50000 } }`,
  ", deadline: 5m",
);

const MOST_RUNS = 10;
const sorted = (pids: readonly string[]) => pids.toSorted((a, b) => (a < b ? -1 : 1));

describe.each([...FAULTS.map((fault) => [fault]), [...FAULTS]])("an audience under %s", (...faults) => {
  test("is charged once, and all its members are stored", async () => {
    const rate = faults.length > 1 ? 0.02 : 0.3;
    const world = await startAudience("never", {
      config: everybody,
      faults: [
        ...faults.map((fault) => ({ fault, rate, ...(fault.startsWith("slow") ? { value: "20" } : {}) })),
        { fault: "409", rate: 0.5, endpoint: UNLOCK },
      ],
    });
    let runs = 1;
    for (; (await runAudiences(world)).status !== "succeeded"; runs++) expect(runs).toBeLessThan(MOST_RUNS);
    await world.control("/faults", { faults: [] });
    const charged = (await searchesOfService(world)).filter(({ billable }) => billable !== null);
    expect(charged).toHaveLength(1);
    const [{ segmentId, billable } = { segmentId: "", billable: null }] = charged;
    expect(sorted(await storedMembers(world))).toEqual(sorted(await membersOfService(world, segmentId)));
    const ledger = await unlocksInLedger(world);
    expect(ledger.filter(({ billed }) => billed !== null)).toEqual([
      { billed: String(billable), reserved: String(billable), in_doubt: "0", possibly_billed: "f" },
    ]);
    expect(await budgetUse(world)).toBe(String(billable));
    expect((await callsOf(world, UNLOCK))["200"]).toBeGreaterThan(0);
  });
});
