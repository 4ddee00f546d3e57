import { z } from "zod";
import type { NestedProblem } from "../problems.ts";
import { flag, oneOrMore, type Settings, settings } from "./settings.ts";
import { cronSchedule } from "./times.ts";
import { jobName, timezone } from "./values.ts";

const common = {
  enabled: flag().default(true),
  after: oneOrMore(jobName()).optional(),
  schedule: cronSchedule().optional(),
  timezone: timezone().default("UTC"),
};

export type CommonJob = Settings<typeof common> & { readonly type: string };

/** Declares the settings of a job type in addition to the common ones. */
export function jobSettings<const Type extends string, Shape extends z.ZodRawShape>(
  type: Type,
  shape: Shape,
) {
  return settings({ type: z.literal(type), ...common, ...shape });
}

/** A job as written in the file, before validation. */
export type WrittenJob = Readonly<Record<string, unknown>>;

/** Part of a job type's declaration that validates the configuration. */
export interface JobDeclaration {
  readonly type: string;
  /** Created by {@link jobSettings}. */
  readonly settings: z.core.$ZodTypeDiscriminable<"type">;
  /** True if jobs of this type send billed records, so that they can have a budget. */
  readonly isBilled: boolean;
  /** Returns problems that involve several settings. */
  readonly findProblems?: (
    job: WrittenJob,
    context: {
      /** Fields mapped by the job's input; null if the input is unknown. */
      readonly inputFields: readonly string[] | null;
      /** Earlier enabled jobs of this type, by name. */
      readonly earlier: ReadonlyMap<string, WrittenJob>;
    },
  ) => readonly NestedProblem[];
}
