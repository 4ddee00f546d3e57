import { StopJobError } from "../errors.ts";

/** So many batches in a row that were mostly rejected, for the same reason, are a wrong mapping and no bad records. */
const MAX_SIMILAR_REJECTIONS = 3;
/** So many batches in a row without an answer, each tried twice, are a service that fails and may charge for it. */
const MAX_UNANSWERED = 5;

/** Notices when one batch after the other fails, so that a job stops before it has spent itself on all of them. */
export interface FailingBatches {
  /** A call was answered. */
  recordAnswer(): void;
  /** All records of a batch have their outcome, and most were not refused. */
  recordAcceptance(): void;
  /** Most records of a batch were refused. */
  recordRejection(signature: string): StopJobError | null;
  /** A batch was set aside unanswered. */
  recordUnanswered(signature: string): StopJobError | null;
}

/** Starts with none. */
export function createFailingBatches(endpoint: string): FailingBatches {
  let lastSignature: string | null = null;
  let rejections = 0;
  let unanswered = 0;

  return {
    recordAnswer() {
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
        `${endpoint}: most records of ${rejections} batches in a row were refused for the same reason (${signature}), ` +
          "so the mapping is wrong rather than the records. Compare the input's `fields` with what the service expects.",
      );
    },
    recordUnanswered(signature) {
      unanswered += 1;
      if (unanswered < MAX_UNANSWERED) return null;
      return new StopJobError(
        "service_failing",
        `${endpoint}: ${unanswered} batches in a row got no answer in two tries each (last: ${signature}). Each try may ` +
          "have been charged, so the job stops; what was answered is kept. Run again when the service has recovered.",
      );
    },
  };
}
