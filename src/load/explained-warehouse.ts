import type { SegmentPush } from "./push-warehouse.ts";
import type { MemberSweep } from "./segment-warehouse.ts";
import type { LookupSelection, Patience, Warehouse } from "./warehouse.ts";

/** Turns what a driver throws into an error that says what to do; leaves what has been explained as it is. */
export type Explain = (error: unknown) => unknown;

/** The warehouse with every failure explained, at the one place where drivers' errors leave it. */
export function explainFailures(warehouse: Warehouse, explain: Explain): Warehouse {
  return new Proxy(warehouse, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== "function") return member;
      return (...args: readonly unknown[]): unknown => {
        const result: unknown = Reflect.apply(member, target, args);
        // What returns at once doesn't talk to a database.
        return result instanceof Promise ? settle(result, explain) : result;
      };
    },
  });
}

async function settle(pending: Promise<unknown>, explain: (error: unknown) => unknown): Promise<unknown> {
  try {
    const result = await pending;
    if (isPush(result)) return explainPush(result, explain);
    if (isSweep(result)) return explainSweep(result, explain);
    return isSelection(result) ? explainPages(result, explain) : result;
  } catch (error) {
    throw explain(error);
  }
}

function isSelection(result: unknown): result is LookupSelection {
  return typeof result === "object" && result !== null && "records" in result && "counts" in result;
}

function isSweep(result: unknown): result is MemberSweep {
  return typeof result === "object" && result !== null && "settle" in result && "isFirst" in result;
}

function isPush(result: unknown): result is SegmentPush {
  return typeof result === "object" && result !== null && "uncertainSince" in result && "next" in result;
}

function explainPush(push: SegmentPush, explain: (error: unknown) => unknown): SegmentPush {
  return {
    uncertainSince: push.uncertainSince,
    againSince: push.againSince,
    settleUncertain: async (...args) => explained(() => push.settleUncertain(...args), explain),
    count: async () => explained(() => push.count(), explain),
    next: async (...args) => explained(() => push.next(...args), explain),
    begin: async (...args) => explained(() => push.begin(...args), explain),
    finish: async (...args) => explained(() => push.finish(...args), explain),
    close: async () => explained(() => push.close(), explain),
  };
}

/** A sweep goes on long after it was opened. */
function explainSweep(sweep: MemberSweep, explain: (error: unknown) => unknown): MemberSweep {
  return {
    isFirst: sweep.isFirst,
    add: async (...args) => explained(() => sweep.add(...args), explain),
    settle: async (...args) => explained(() => sweep.settle(...args), explain),
    close: async () => explained(() => sweep.close(), explain),
  };
}

async function explained<Result>(
  work: () => Promise<Result>,
  explain: (error: unknown) => unknown,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw explain(error);
  }
}

/** Pages are read long after the selection was made. */
function explainPages(selection: LookupSelection, explain: (error: unknown) => unknown): LookupSelection {
  const within: Patience = (work) => explained(work, explain);
  return {
    ...selection,
    records: (outer = (page) => page()) => selection.records((page) => outer(() => within(page))),
    close: () => within(() => selection.close()),
  };
}
