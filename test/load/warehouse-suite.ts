import { afterAll, beforeAll, beforeEach, describe } from "vitest";
import { describeAnswers } from "./suite/answers.ts";
import { describeBudgets } from "./suite/budgets.ts";
import { describeCheckpoints } from "./suite/checkpoints.ts";
import { describeCommits } from "./suite/commits.ts";
import { describeCursor } from "./suite/cursor.ts";
import { describeEqualRecords } from "./suite/equal-records.ts";
import { describeErasedInJson } from "./suite/erased-in-json.ts";
import { describeErasedNeighbours } from "./suite/erased-neighbours.ts";
import { describeErasureHistories } from "./suite/erasure-histories.ts";
import { describeAfterErasure } from "./suite/after-erasure.ts";
import { describeErasure } from "./suite/erasure.ts";
import { describeFeeds } from "./suite/feeds.ts";
import { describeHistories } from "./suite/histories.ts";
import { describeInputs } from "./suite/inputs.ts";
import { describeLedger } from "./suite/ledger.ts";
import { describeLocks } from "./suite/locks.ts";
import { describeMissingRows } from "./suite/missing-rows.ts";
import { describeParameters } from "./suite/parameters.ts";
import { describePersons } from "./suite/persons.ts";
import { describePidFrom } from "./suite/pid-from.ts";
import { clear, type GetContext, type Context } from "./suite/context.ts";
import { describePushes } from "./suite/pushes.ts";
import { describeSegmentMembers } from "./suite/segment-members.ts";
import { describeNormalize } from "./suite/normalize.ts";
import { describeOutcomes } from "./suite/outcomes.ts";
import { describeRejects } from "./suite/rejects.ts";
import { describeRejectedRows } from "./suite/rejected-rows.ts";
import { describeRuns } from "./suite/runs.ts";
import { describeSchedule } from "./suite/schedule.ts";
import { describeSelection } from "./suite/selection.ts";
import { describeShards } from "./suite/shards.ts";
import { describeUsage } from "./suite/usage.ts";
import { describeValidEmails } from "./suite/valid-emails.ts";
import { describeValues } from "./suite/values.ts";

/** Part of the suite. */
export type SuitePart = (getContext: GetContext) => void;

/** The suite in groups of about equal duration, which run at the same time in Postgres. */
export const suiteParts = {
  selection: [
    describeSelection,
    describeRejectedRows,
    describeEqualRecords,
    describeParameters,
    describeCursor,
    describeCheckpoints,
    describeInputs,
    describeNormalize,
  ],
  answers: [
    describePidFrom,
    describeValidEmails,
    describePersons,
    describeAnswers,
    describeCommits,
    describeRuns,
    describeOutcomes,
    describeBudgets,
    describeLedger,
    describeValues,
  ],
  people: [
    describeShards,
    describeRejects,
    describeMissingRows,
    describeLocks,
    describeSchedule,
    describeUsage,
    describeFeeds,
    describePushes,
    describeSegmentMembers,
  ],
  erasure: [describeErasure, describeAfterErasure, describeErasedNeighbours, describeErasedInJson],
  histories: [describeHistories, describeErasureHistories],
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
