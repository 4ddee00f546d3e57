import type { Db } from "../load/db/db.ts";
import { changeStates, untellStates } from "../load/runs/alert-states.ts";
import type { StateChange, SubjectState } from "../load/runs/subject-states.ts";
import type { JobServices } from "../jobs/services.ts";
import type { Alert, TellableState } from "./alert-states.ts";
import { describeForLog } from "./log-fields.ts";
import { postToWebhook } from "./webhook.ts";

/** What alerts are sent with. */
export type AlertServices = Pick<JobServices, "config" | "clock" | "log"> & {
  /** Null if it could not be opened. */
  readonly db: Db | null;
};

/** The changes among states; where the warehouse can't say what was told, everything that is not well. */
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
  // Sending an alert twice is better than not at all: the warehouse itself may be what fails.
  const changes = states.filter(({ state }) => state !== "ok").map((one) => ({ ...one, before: "unknown" }));
  return { changes, isNoted: false };
}

/** Tells the webhook of every state that has changed, once, whichever process sees it. Never throws. */
export async function sendAlerts(
  services: AlertServices,
  states: readonly TellableState[],
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
      const told = states.find((one) => one.subject === subject && one.state === state);
      return told && !(state === "ok" && told.isQuietWhenOk) ? [{ ...told, before }] : [];
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
    log.warn({ ...describeForLog(error), hint: "told again after the next run" }, "alerts_failed");
    // What nobody was told of comes again.
    if (db && changes.length > 0) await untellStates(db, changes).catch(() => {});
  }
}
