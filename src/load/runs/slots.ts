/** How a slot ended: as its job did. */
export type SlotEnd = "succeeded" | "failed" | "limited" | "skipped";

/** A slot of a job's schedule, as it was last noted. */
export interface KnownSlot {
  readonly job: string;
  readonly slot: string;
  /** ISO 8601, UTC. */
  readonly dueAt: string;
  /** `claimed`, `given_back`, `watched` (no slot: when the job was first watched), or how it ended. */
  readonly status: string;
  readonly runId: string | null;
  readonly endedAt: string | null;
  /** A scheduler that is alive works on it. */
  readonly isHeld: boolean;
}

/** The wish to run a slot. */
export interface SlotClaim {
  readonly job: string;
  readonly slot: string;
  /** ISO 8601, UTC. */
  readonly dueAt: string;
  readonly runId: string;
}

/** A scheduler, as others can recognize it. */
export interface SchedulerProcess {
  /** Unique for every start of a scheduler. */
  readonly owner: string;
  readonly host: string;
  readonly pid: number;
}

/** A slot that is ours now. */
export interface GrantedSlot {
  readonly job: string;
  readonly slot: string;
  /** Of the first one who claimed it: a run that was cut off goes on under its id. */
  readonly runId: string;
}
