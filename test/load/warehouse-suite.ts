import { afterAll, beforeAll, beforeEach, describe } from "vitest";
import { describeAnswers } from "./suite/answers.ts";
import { describeBudgets } from "./suite/budgets.ts";
import { describeCheckpoints } from "./suite/checkpoints.ts";
import { describeCommits } from "./suite/commits.ts";
import { describeErasedInJson } from "./suite/erased-in-json.ts";
import { describeErasedNeighbours } from "./suite/erased-neighbours.ts";
import { describeErasureHistories } from "./suite/erasure-histories.ts";
import { describeAfterErasure } from "./suite/after-erasure.ts";
import { describeErasure } from "./suite/erasure.ts";
import { describeFeeds } from "./suite/feeds.ts";
import { describeInputs } from "./suite/inputs.ts";
import { describeLedger } from "./suite/ledger.ts";
import { describeLocks } from "./suite/locks.ts";
import { describePersons } from "./suite/persons.ts";
import { clear, type GetContext, type Context } from "./suite/context.ts";
import { describePushes } from "./suite/pushes.ts";
import { describeSegmentMembers } from "./suite/segment-members.ts";
import { describeNormalize } from "./suite/normalize.ts";
import { describeRejects } from "./suite/rejects.ts";
import { describeRuns } from "./suite/runs.ts";
import { describeSchedule } from "./suite/schedule.ts";
import { describeShards } from "./suite/shards.ts";
import { describeUsage } from "./suite/usage.ts";
import { describeValues } from "./suite/values.ts";

/** Part of the suite. */
export type SuitePart = (getContext: GetContext) => void;

/** The suite in groups of about equal duration, which run at the same time in Postgres. */
export const suiteParts = {
  selection: [describeCheckpoints, describeInputs, describeNormalize],
  answers: [
    describePersons,
    describeAnswers,
    describeCommits,
    describeRuns,
    describeBudgets,
    describeLedger,
    describeValues,
  ],
  people: [
    describeShards,
    describeRejects,
    describeLocks,
    describeSchedule,
    describeUsage,
    describeFeeds,
    describePushes,
    describeSegmentMembers,
  ],
  erasure: [describeErasure, describeAfterErasure, describeErasedNeighbours, describeErasedInJson],
  histories: [describeErasureHistories],
} satisfies Readonly<Record<string, readonly SuitePart[]>>;

/**
 * Behavior common to every warehouse. `open` returns a migrated warehouse with the schemas
 * `person_data` and `person_data_ops`.
 */
export function describeWarehouse(
  name: string,
  open: () => Promise<Context>,
  parts: readonly SuitePart[] = Object.values(suiteParts).flat(),
): void {
  describe(`the behaviour of ${name}`, () => {
    let context: Context;
    beforeAll(async () => {
      context = await open();
    });
    beforeEach(() => clear(context));
    afterAll(() => context.close());
    for (const describePart of parts) describePart(() => context);
  });
}
