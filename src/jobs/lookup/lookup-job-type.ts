import { checkInput, isCursorValue } from "../../load/inputs/check-input.ts";
import type { JobType } from "../job-type.ts";
import { throwProblems } from "../read-source.ts";
import { runLookup } from "./lookup-job.ts";
import { planLookup } from "./plan-lookup.ts";
import { inputSourceOf, readSourceOf } from "./lookup-spec.ts";
import type { LookupJobConfig, LookupJobType } from "./lookup-type.ts";
import { passCursor } from "../../load/due/pass-checkpoint.ts";

/** Completes a lookup's declaration to a job type. */
export function lookupJob(lookup: LookupJobType): JobType {
  const type: JobType<LookupJobConfig> = {
    ...lookup,
    endpoints: [{ ...lookup.endpoint, method: "POST" }],
    isSharded: true,
    reads: ({ input }, config) => [readSourceOf(input, config)],
    plan: planLookup,
    run: runLookup,
    checkpoints: {
      meaning:
        "value: highest cursor value seen in the input; full_at: time of the last comparison of all rows; stands_for: hash of the " +
        "mapping of both. It only narrows the search for changes; without it, all rows are compared",
      cursor: passCursor,
      example: { value: "2026-11-20T22:15:00Z" },
      streams: async ({ input }) => (input.cursor === null ? [] : [input.name]),
      noStream: ({ input }) => `its input ${input.name} has no \`cursor:\`, so each run compares all rows`,
      async check({ input }, db, cursor) {
        const source = await inputSourceOf(input, Object.keys(input.fields));
        throwProblems(await checkInput(db, source));
        const { value } = passCursor.parse(cursor);
        if (await isCursorValue(db, source, value)) return [];
        return [
          { path: "value", message: `is not a value of the column ${input.cursor} of input ${input.name}` },
        ];
      },
    },
  };
  return type;
}
