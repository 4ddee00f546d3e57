import type { Db } from "../load/db/db.ts";
import { changeStates, unmarkReported } from "../load/runs/alert-states.ts";
import type { StateChange, SubjectState } from "../load/runs/subject-states.ts";
import { connectHint } from "../http-agent.ts";
import type { JobServices } from "../jobs/services.ts";
import type { Alert, ReportableState } from "./alert-states.ts";
import { describeForLog } from "./log-fields.ts";
import { postToWebhook } from "./webhook.ts";

/** Services for sending alerts. */
export type AlertServices = Pick<JobServices, "config" | "clock" | "log"> & {
  /** Null if it can't be opened. */
  readonly db: Db | null;
};

/** Changes since the last report; if the warehouse is unreachable, every state other than `ok`. */
async function changesOf(
  { db, log }: AlertServices,
  states: readonly SubjectState[],
  runId: string,
): Promise<{ readonly changes: readonly StateChange[]; readonly isNoted: boolean }> {
  try {
    if (db) return { changes: await changeStates(db, states, runId), isNoted: true };
  } catch (error) {
    log.warn(describeForLog(error), "alert_states_unreadable");
  }
  // An alert sent twice is better than none: the warehouse itself may be failing.
  const changes = states.filter(({ state }) => state !== "ok").map((one) => ({ ...one, before: "unknown" }));
  return { changes, isNoted: false };
}

/** Posts every changed state to the webhook, once across processes. Never throws. */
export async function sendAlerts(
  services: AlertServices,
  states: readonly ReportableState[],
  runId: string,
): Promise<void> {
  const { config, db, clock, log } = services;
  if (config.alerts === null || states.length === 0) return;
  let changes: readonly StateChange[] = [];
  try {
    const named = states.map(({ subject, state }) => ({ subject, state }));
    const found = await changesOf(services, named, runId);
    if (found.isNoted) changes = found.changes;
    const alerts = found.changes.flatMap(({ subject, state, before }): readonly Alert[] => {
      const report = states.find((one) => one.subject === subject && one.state === state);
      return report && !(state === "ok" && report.isQuietWhenOk) ? [{ ...report, before }] : [];
    });
    if (alerts.length === 0) return;
    await postToWebhook(config.alerts, {
      alerts,
      runId,
      warehouse: db?.description ?? "the warehouse can't be reached",
      at: new Date(clock.now()).toISOString(),
    });
    log.info({ alerts: alerts.map(({ subject, state }) => `${subject}: ${state}`) }, "alerts_sent");
  } catch (error) {
    const described = describeForLog(error);
    const hint = connectHint(described.code ?? "") ?? "retried after the next run";
    log.warn({ ...described, hint }, "alerts_failed");
    // Unsent changes are reported next time.
    if (db && changes.length > 0) await unmarkReported(db, changes).catch(() => {});
  }
}
