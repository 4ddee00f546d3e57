import { LimitReachedError, OWN_LIMITS, StopJobError } from "../../errors.ts";

/** Work of a job on several searches or jobs of the service, where the failure of one doesn't end the others. */
export interface Several {
  /** Does the work; keeps a StopJobError or LimitReachedError for the end. Returns true if it succeeded. */
  attempt(work: () => Promise<unknown>): Promise<boolean>;
  /** Throws the errors that were kept, if any, as one; a failure outranks a limit. */
  end(): void;
}

/** Starts work on several searches. */
export function workOnSeveral(): Several {
  const failures: StopJobError[] = [];
  const limits: LimitReachedError[] = [];
  return {
    async attempt(work) {
      try {
        await work();
        return true;
      } catch (error) {
        if (error instanceof StopJobError) failures.push(error);
        else if (error instanceof LimitReachedError) limits.push(error);
        else throw error;
        return false;
      }
    },
    end() {
      const message = [...new Set([...failures, ...limits].map((error) => error.message))].join(" ");
      const [failure] = failures;
      if (failure) throw new StopJobError(failure.code, message, { cause: failure });
      // A limit of the service outranks the user's own.
      const limit = limits.find(({ code }) => !OWN_LIMITS.includes(code)) ?? limits[0];
      if (limit) throw new LimitReachedError(limit.code, message, { cause: limit });
    },
  };
}
