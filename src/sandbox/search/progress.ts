/** Course of a job, from its first state to its end. */
export interface Course {
  /** States before the end, in their order; ones that the interface doesn't name are allowed. */
  readonly states: readonly string[];
  /** Milliseconds in each state; null to move on with each reading of the status. */
  readonly stateMs: number | null;
}

/** Place of a job on its course. */
export interface Progress {
  readonly createdMs: number;
  /** Last change of the status. */
  updatedMs: number;
  /** Number of states left behind. */
  passed: number;
}

/** Starts a course. */
export function startProgress(nowMs: number): Progress {
  return { createdMs: nowMs, updatedMs: nowMs, passed: 0 };
}

/** Moves a job on for a reading of its status; returns its state, or null at the end. */
export function moveOn(progress: Progress, { states, stateMs }: Course, nowMs: number): string | null {
  const due =
    stateMs === null
      ? progress.passed + 1
      : stateMs === 0
        ? states.length
        : Math.floor((nowMs - progress.createdMs) / stateMs);
  const passed = Math.max(progress.passed, Math.min(due, states.length));
  if (passed > progress.passed) {
    progress.passed = passed;
    progress.updatedMs = nowMs;
  }
  return states[passed] ?? null;
}

/** True if a job has left all states behind, without a reading of its status. */
export function hasEnded(progress: Progress, course: Course, nowMs: number): boolean {
  if (course.stateMs === null) return progress.passed >= course.states.length;
  return moveOn(progress, course, nowMs) === null;
}
