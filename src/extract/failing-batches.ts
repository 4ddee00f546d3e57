import { StopJobError } from "../errors.ts";

/** Consecutive batches mostly rejected for the same reason, which indicates a wrong mapping. */
const MAX_SIMILAR_REJECTIONS = 3;
/** Consecutive batches without an answer after two attempts each: the service is failing and may bill for it. */
const MAX_UNANSWERED = 5;

/** Detects a series of failing batches, to stop a job before it uses up its records. */
export interface FailingBatches {
  /** True if the last batch that ended was answered. */
  readonly isAnswering: boolean;
  /** Records an answered call. */
  recordAnswer(): void;
  /** Records a finished batch that was mostly accepted. */
  recordAcceptance(): void;
  /** Records a batch that was mostly rejected. */
  recordRejection(signature: string): StopJobError | null;
  /** Records a batch that was set aside without an answer. */
  recordUnanswered(signature: string): StopJobError | null;
}

/** Starts without failures. */
export function createFailingBatches(endpoint: string): FailingBatches {
  let lastSignature: string | null = null;
  let rejections = 0;
  let unanswered = 0;

  let isAnswering = false;

  return {
    get isAnswering() {
      return isAnswering;
    },
    recordAnswer() {
      isAnswering = true;
      unanswered = 0;
    },
    recordAcceptance() {
      lastSignature = null;
      rejections = 0;
    },
    recordRejection(signature) {
      rejections = signature === lastSignature ? rejections + 1 : 1;
      lastSignature = signature;
      if (rejections < MAX_SIMILAR_REJECTIONS) return null;
      return new StopJobError(
        "similar_failures",
        `${endpoint}: most records of ${rejections} consecutive batches were rejected for the same reason (${signature}), ` +
          "so the mapping is probably wrong. Compare the input's `fields` with what the service expects.",
      );
    },
    recordUnanswered(signature) {
      isAnswering = false;
      unanswered += 1;
      if (unanswered < MAX_UNANSWERED) return null;
      return new StopJobError(
        "service_failing",
        `${endpoint}: ${unanswered} consecutive batches got no answer in two attempts each (last: ${signature}). Each attempt may ` +
          "have been billed, so the job stops; all answers are kept. Run again when the service has recovered.",
      );
    },
  };
}
