import { z } from "zod";
import type { Complaint, Path } from "../problems.ts";
import { flag, oneOrMore } from "./described.ts";
import { type Settings, settings } from "./settings.ts";
import { cronSchedule, jobName, timezone } from "./values.ts";

/** Settings of every job. */
const common = {
  enabled: flag().default(true),
  after: oneOrMore(jobName()).optional(),
  /** Five cron fields. */
  schedule: cronSchedule().optional(),
  timezone: timezone().default("UTC"),
};

/** A job of any type; a type has more settings. */
export type CommonJob = Settings<typeof common> & { readonly type: string };

/** Declares the settings of a job type beside those of every job. */
export function jobSettings<const Type extends string, Shape extends z.ZodRawShape>(
  type: Type,
  shape: Shape,
) {
  return settings({ type: z.literal(type), ...common, ...shape });
}

/** Accepts a job of a type that this version doesn't have, whatever its settings; `rules/` refuse it. */
export function laterJob(type: string) {
  return z.looseObject({ type: z.literal(type), ...common });
}

/** A job as the file has it, before it is checked. */
export type WrittenJob = Readonly<Record<string, unknown>>;

/** Something wrong with a job as a whole. */
export interface JobComplaint extends Complaint {
  /** Path inside the job. */
  readonly path: Path;
}

/** The part of a job type's declaration that the configuration is checked with. */
export interface JobDeclaration {
  readonly type: string;
  /** Made by {@link jobSettings}. */
  readonly settings: z.core.$ZodTypeDiscriminable<"type">;
  /** True if jobs of this type send records that are billed, so they can have a budget. */
  readonly isBilled: boolean;
  /** Problems beyond the form of each setting. */
  readonly complaints?: (
    job: WrittenJob,
    context: {
      /** Fields that the job's input maps; null if the input isn't known. */
      readonly inputFields: readonly string[] | null;
      /** Earlier enabled jobs of this type, by name. */
      readonly earlier: ReadonlyMap<string, WrittenJob>;
    },
  ) => readonly JobComplaint[];
}
