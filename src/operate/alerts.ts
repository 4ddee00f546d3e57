import type { StateChange } from "../load/alert-warehouse.ts";
import type { JobServices } from "../jobs/services.ts";
import type { Alert, TellableState } from "./alert-states.ts";
import { describeForLog } from "./log-fields.ts";
import { postToWebhook } from "./webhook.ts";

type Services = Pick<JobServices, "config" | "warehouse" | "clock" | "log">;

/** Tells the webhook of every state that has changed, once, whichever process sees it. Never throws. */
export async function sendAlerts(
  services: Services,
  states: readonly TellableState[],
  runId: string,
): Promise<void> {
  const { config, warehouse, clock, log } = services;
  if (config.alerts === null || states.length === 0) return;
  let changes: readonly StateChange[] = [];
  try {
    const named = states.map(({ subject, state }) => ({ subject, state }));
    changes = await warehouse.changeStates(named, runId);
    const alerts = changes.flatMap(({ subject, state, before }): readonly Alert[] => {
      const told = states.find((one) => one.subject === subject && one.state === state);
      return told && !(state === "ok" && told.isQuietWhenOk) ? [{ ...told, before }] : [];
    });
    if (alerts.length === 0) return;
    await postToWebhook(config.alerts, {
      alerts,
      runId,
      warehouse: warehouse.description,
      at: new Date(clock.now()).toISOString(),
    });
    log.info({ alerts: alerts.map(({ subject, state }) => `${subject}: ${state}`) }, "alerts_sent");
  } catch (error) {
    log.warn({ ...describeForLog(error), hint: "told again after the next run" }, "alerts_failed");
    // What nobody was told of comes again.
    await warehouse.untellStates(changes).catch(() => {});
  }
}
