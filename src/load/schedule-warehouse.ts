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

/** Who runs which slot: the part of a warehouse that keeps several schedulers apart. Times are the warehouse's own. */
export interface ScheduleWarehouse {
  /** Notes that jobs are watched from an instant (ISO 8601) on; does nothing for those that have any slot. */
  watchJobs(jobs: readonly string[], sinceAt: string, by: SchedulerProcess): Promise<void>;
  /** The newest slot of each job; empty before the first migration. */
  newestSlots(): Promise<readonly KnownSlot[]>;
  /**
   * Claims slots in one transaction. A slot is granted once: unless it was given back or its owner is dead, when no newer
   * one is known and no other slot of the job is held. Older ones that nobody works on are noted as missed.
   */
  claimSlots(
    claims: readonly SlotClaim[],
    by: SchedulerProcess,
    lifeMs: number,
  ): Promise<readonly GrantedSlot[]>;
  /** The sign of life of a scheduler: its slots live `lifeMs` from now on. */
  renewSlots(owner: string, lifeMs: number): Promise<void>;
  /** Notes how slots of the owner's ended; null gives a slot back, so that it is claimed again. */
  endSlots(
    owner: string,
    ends: readonly { readonly job: string; readonly slot: string; readonly status: SlotEnd | null }[],
  ): Promise<void>;
}
