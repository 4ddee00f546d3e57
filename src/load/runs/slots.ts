/** End of a slot: the status of its job. */
export type SlotEnd = "succeeded" | "failed" | "limited" | "skipped";

/** A slot of a job's schedule, as last recorded. */
export interface KnownSlot {
  readonly job: string;
  readonly slot: string;
  /** ISO 8601, UTC. */
  readonly dueAt: string;
  /** `claimed`, `given_back`, `watched` (no slot: when the job was first scheduled), or the slot's end. */
  readonly status: string;
  readonly runId: string | null;
  readonly endedAt: string | null;
  /** True if a live scheduler holds it. */
  readonly isHeld: boolean;
}

/** Request to run a slot. */
export interface SlotClaim {
  readonly job: string;
  readonly slot: string;
  /** ISO 8601, UTC. */
  readonly dueAt: string;
  readonly runId: string;
}

/** Identity of a scheduler. */
export interface SchedulerProcess {
  /** Unique per start of a scheduler. */
  readonly owner: string;
  readonly host: string;
  readonly pid: number;
}

/** A slot that this scheduler claimed. */
export interface GrantedSlot {
  readonly job: string;
  readonly slot: string;
  /** Run ID of the first claim, under which an interrupted run is resumed. */
  readonly runId: string;
}
