import { LimitReachedError } from "../../errors.ts";
import type { FeedContext } from "../feed-type.ts";

/** Recommended interval between two readings of a state (section 4.2). */
const [LEAST_MS, MOST_MS] = [2000, 5000];

/** Time until which a run waits for jobs of the service. */
interface Deadline {
  /** Waits for 2 to 5 s. Throws a LimitReachedError once the time is over; the next run resumes. */
  pause(waitingFor: readonly string[]): Promise<void>;
}

/** Starts the time of a run. */
export function startDeadline(
  { clock, random, signal, job, progress }: FeedContext,
  deadlineMs: number,
): Deadline {
  const endMs = clock.now() + deadlineMs;
  let isNoted = false;
  return {
    async pause(waitingFor) {
      if (clock.now() >= endMs) {
        throw new LimitReachedError(
          "deadline",
          `${job.name}: ${waitingFor.join(", ")} did not finish in time. The next run resumes.`,
        );
      }
      if (!isNoted) progress.note(job.name, `waiting for the service to finish ${waitingFor.join(", ")}`);
      isNoted = true;
      await clock.sleep(LEAST_MS + random() * (MOST_MS - LEAST_MS), signal);
    },
  };
}
