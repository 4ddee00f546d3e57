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

/** `name`, or `name:count` for the count-th time the step is reached (1-based). */
const SPEC = /^(?<name>[a-z_]+)(?::(?<count>[1-9][0-9]{0,8}))?$/u;

let passed = 0;

/**
 * Marks a step boundary. Does nothing unless the crash test sets `PERSON_ETL_CRASH_AT` to this step: then the process kills
 * itself without running any handler or exit hook.
 */
export function crashPoint(name: CrashPoint): void {
  const spec = process.env["PERSON_ETL_CRASH_AT"];
  if (spec === undefined) return;
  const parsed = SPEC.exec(spec)?.groups;
  if (parsed?.["name"] !== name) return;
  passed += 1;
  if (passed === Number(parsed["count"] ?? 1)) process.kill(process.pid, "SIGKILL");
}
