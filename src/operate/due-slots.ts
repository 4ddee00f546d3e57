import { createHash } from "node:crypto";
import type { KnownSlot } from "../load/runs/slots.ts";
import { lastSlot, nextSlot, type Slot } from "../schedule/slots.ts";
import type { ScheduledJob } from "../jobs/scheduled-jobs.ts";

/** A slot to be run now. */
export interface DueSlot extends Slot {
  readonly job: ScheduledJob;
}

/** What a look at the schedules found. */
export interface DueReport {
  /** To be run now, each job after those it depends on. */
  readonly due: readonly DueSlot[];
  /** Before this instant another look finds nothing new; Infinity where nothing is scheduled. */
  readonly nextLookMs: number;
}

/** How slots are treated that were missed, and how far their starts are spread. */
export interface DueRules {
  readonly catchUpMs: number;
  readonly jitterMs: number;
}

/** What is due: of each job the last slot that was not run, if that is not too long ago, and nothing hinders it. */
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

/** The slot of a job that should have been run by now; null where the last one is done with, or too long ago. */
function pendingSlot(
  job: ScheduledJob,
  known: KnownSlot | undefined,
  nowMs: number,
  { catchUpMs, jitterMs }: DueRules,
): Slot | null {
  // Nobody has noted since when the job is watched.
  if (!known) return null;
  const knownMs = Date.parse(known.dueAt);
  // A slot is started late by its jitter, and found late by the time between two looks.
  const oldestMs = nowMs - Math.max(catchUpMs, jitterMs + LOOK_MS);
  const newer = lastSlot(job.schedule, Math.max(oldestMs, knownMs + 1), nowMs);
  if (newer) return newer;
  const isOpen = known.endedAt === null && knownMs >= oldestMs;
  return isOpen ? { key: known.slot, atMs: knownMs } : null;
}

/** Looks are a minute apart; a slot of the minutes before the last look is not missed. */
const LOOK_MS = 5 * 60_000;

/** When a slot starts: its time and the job's own share of the jitter, the same for every scheduler. */
function startOf(job: ScheduledJob, slot: Slot, { jitterMs }: DueRules): number {
  if (jitterMs === 0) return slot.atMs;
  const digest = createHash("sha256")
    .update(JSON.stringify([job.name, slot.key]))
    .digest();
  return slot.atMs + Math.floor((digest.readUInt32BE(0) / 2 ** 32) * jitterMs);
}
