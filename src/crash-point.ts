/** Steps of a job at which a crash must not lose data or cause duplicate billing. */
export type CrashPoint =
  | "before_reserve"
  | "after_reserve"
  | "before_send"
  | "after_send"
  | "after_receive"
  | "before_spool_write"
  | "after_spool_write"
  | "after_spool_fsync"
  | "before_result"
  | "before_copy"
  | "after_copy"
  | "before_commit"
  | "after_commit"
  | "after_spool_removal"
  | "before_end"
  | "after_end"
  | "after_erasure_noted"
  | "after_erasure"
  | "publication_claimed"
  | "publication_staged"
  | "publication_committed"
  | "publication_confirmed";

let passed = 0;

/**
 * Marks a step boundary. Does nothing unless the crash test sets `PERSON_ETL_CRASH_AT` to this step: then the process kills
 * itself without running any handler or exit hook. `after_send:2` means the second time that the step is reached.
 */
export function crashPoint(name: CrashPoint): void {
  const wanted = process.env["PERSON_ETL_CRASH_AT"];
  if (wanted === undefined) return;
  const [step, count = "1"] = wanted.split(":");
  if (step !== name) return;
  passed += 1;
  if (passed === Number(count)) process.kill(process.pid, "SIGKILL");
}
