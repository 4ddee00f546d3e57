import type { z } from "zod";
import type { Config, JobConfig } from "../config/config.ts";
import type { JobDeclaration } from "../config/schema/jobs.ts";
import type { JobContext, Worked } from "./job.ts";
import type { PlanContext, Planned } from "./report/job-plan.ts";
import type { JobServices } from "./services.ts";
import type { StoredCheckpoint } from "../load/write/checkpoints.ts";
import type { InputSource } from "../load/inputs/input-source.ts";

/** Call that `check` can try. */
export interface Endpoint {
  readonly name: string;
  readonly method: "GET" | "POST";
  readonly path: string;
  /** True if it requires the key of a user. */
  readonly asUser?: true;
}

/** Table or query that a job reads. */
export interface ReadSource {
  /** `input NAME`, or `query of JOB`. */
  readonly subject: string;
  /** Path in the configuration. */
  readonly path: string;
  /** True for a table or view, false for a query. */
  readonly isTable: boolean;
  /** True for a query of IDs only (`segment_push`, `contact_jobs`). */
  readonly isPush: boolean;
  /** True for a query over the program's own tables. */
  readonly isOverOurTables: boolean;
  /** Null: the warehouse. */
  readonly connection: string | null;
  open(): Promise<InputSource>;
}

/** Checkpoints of a job type. */
export interface JobCheckpoints<J extends JobConfig = JobConfig> {
  /** Meaning of a cursor. */
  readonly meaning: string;
  readonly cursor: z.ZodObject;
  /** Keys that are about the value of another one, and are forgotten when users change that. */
  readonly about?: { readonly key: string; readonly keys: readonly string[] };
  /** Example of a cursor that users can set. */
  readonly example: object;
  /** Known streams of a job. */
  streams(job: J, services: Pick<JobServices, "config" | "db">): Promise<readonly string[]>;
  /** Reason why a job has no stream. */
  noStream(job: J): string;
}

/** Complete declaration of a job type. */
export interface JobType<J extends JobConfig = JobConfig> extends JobDeclaration {
  readonly endpoints: readonly Endpoint[];
  /** Result tables, which are fresh after a successful run. */
  readonly writes: readonly string[];
  /** True if each shard of a run does a part; otherwise the first shard does everything. */
  readonly isSharded: boolean;
  /** Null: every run compares a fingerprint of each input row, so there is no position to resume from. */
  readonly checkpoints: JobCheckpoints<J> | null;
  reads(job: J, config: Config): readonly ReadSource[];
  /** Consequences of the configuration that `plan` and `check` report before the next run; none by default. */
  remarks?(job: J, checkpoints: readonly StoredCheckpoint[]): readonly string[];
  /** Predicts the effect of {@link run} without a call. */
  plan(services: PlanContext, job: J): Promise<Planned>;
  /** Does the work of one run; the shell in `job.ts` does the rest. */
  run(context: JobContext<J>): Promise<Worked>;
}
