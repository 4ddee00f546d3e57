import { createHash } from "node:crypto";
import type { KnownSlot } from "../load/runs/slots.ts";
import { lastSlot, nextSlot, type Slot } from "../schedule/slots.ts";
import type { ScheduledJob } from "../jobs/scheduled-jobs.ts";

/** A slot to run now. */
export interface DueSlot extends Slot {
  readonly job: ScheduledJob;
}

/** Due slots, and when to check again. */
export interface DueReport {
  /** Slots to run now, each job after those it depends on. */
  readonly due: readonly DueSlot[];
  /** No slot becomes due before this instant; Infinity if nothing is scheduled. */
  readonly nextLookMs: number;
}

/** Limits for missed slots, and the spread of starts. */
export interface DueRules {
  readonly catchUpMs: number;
  readonly jitterMs: number;
}

/** Finds the due slots: of each job the last pending one, unless it is too old, held, or waits for another job. */
export function findDue(
  jobs: readonly ScheduledJob[],
  known: readonly KnownSlot[],
  nowMs: number,
  rules: DueRules,
): DueReport {
  const knownOf = new Map(known.map((slot) => [slot.job, slot]));
  const pending = new Map<string, DueSlot>();
  let nextLookMs = Number.POSITIVE_INFINITY;
  for (const job of jobs) {
    const next = nextSlot(job.schedule, nowMs);
    if (next) nextLookMs = Math.min(nextLookMs, startOf(job, next, rules));
    const slot = pendingSlot(job, knownOf.get(job.name), nowMs, rules);
    if (slot) pending.set(job.name, { ...slot, job });
  }
  const due: DueSlot[] = [];
  for (const slot of pending.values()) {
    const startMs = startOf(slot.job, slot, rules);
    const isFree = !knownOf.get(slot.job.name)?.isHeld;
    const waitsFor = slot.job.after.some((name) => {
      const other = pending.get(name);
      const isFirst = other !== undefined && other.atMs <= slot.atMs && !due.includes(other);
      return isFirst || (knownOf.get(name)?.isHeld ?? false);
    });
    if (startMs <= nowMs && isFree && !waitsFor) due.push(slot);
    else nextLookMs = Math.min(nextLookMs, Math.max(startMs, nowMs));
  }
  return { due, nextLookMs };
}

/** Last slot of a job that has not run; null if there is none or it is too old. */
function pendingSlot(
  job: ScheduledJob,
  known: KnownSlot | undefined,
  nowMs: number,
  { catchUpMs, jitterMs }: DueRules,
): Slot | null {
  // Not recorded yet: the job has no start from which to count slots.
  if (!known) return null;
  const knownMs = Date.parse(known.dueAt);
  // A slot starts late by its jitter, and is found late by the interval between checks.
  const oldestMs = nowMs - Math.max(catchUpMs, jitterMs + LOOK_MS);
  const newer = lastSlot(job.schedule, Math.max(oldestMs, knownMs + 1), nowMs);
  if (newer) return newer;
  const isOpen = known.endedAt === null && knownMs >= oldestMs;
  return isOpen ? { key: known.slot, atMs: knownMs } : null;
}

/** Tolerance for late checks, which run every minute. */
const LOOK_MS = 5 * 60_000;

/** Start of a slot: its time plus a jitter that is equal in every scheduler. */
function startOf(job: ScheduledJob, slot: Slot, { jitterMs }: DueRules): number {
  if (jitterMs === 0) return slot.atMs;
  const digest = createHash("sha256")
    .update(JSON.stringify([job.name, slot.key]))
    .digest();
  return slot.atMs + Math.floor((digest.readUInt32BE(0) / 2 ** 32) * jitterMs);
}
