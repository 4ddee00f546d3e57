import { removeOld } from "../load/runs/remove-old.ts";
import type { RunReport } from "../jobs/run.ts";
import type { JobServices } from "../jobs/services.ts";
import { readStatus } from "../jobs/report/status.ts";
import { retentionRuleOf, retentionRules } from "../schemas/retention.ts";
import { stateOfFailure, statesOfRun, statesOfTime } from "./alert-states.ts";
import { type AlertServices, sendAlerts } from "./alerts.ts";
import { describeForLog } from "./log-fields.ts";

type Services = Pick<JobServices, "config" | "db" | "clock" | "log">;

/** Sends alerts and applies retention after a run. Never fails the run. */
export async function concludeRun(
  services: Services,
  report: RunReport,
  options: {
    /** False for a shard; only whole runs apply retention. */
    readonly isWhole: boolean;
  },
): Promise<void> {
  await sendAlerts(services, statesOfRun(services.config, report), report.run_id);
  await alertLateness(services);
  if (options.isWhole) await removeOldRows(services);
}

/** Sends the alert of a run that failed before its first job. */
export async function alertRunFailure(services: AlertServices, error: unknown, runId: string): Promise<void> {
  await sendAlerts(services, [stateOfFailure(error)], runId);
}

/** Sends alerts about freshness and budgets. */
export async function alertLateness(services: Services): Promise<void> {
  if (services.config.alerts === null) return;
  try {
    await sendAlerts(
      services,
      statesOfTime(services.config, await readStatus(services, { countsMembers: false })),
      "",
    );
  } catch (error) {
    services.log.warn(describeForLog(error), "alerts_failed");
  }
}

async function removeOldRows({ config, db, log }: Services): Promise<void> {
  const retentions = retentionRules.flatMap(({ table }) => {
    const keepMs = config.retention[table];
    const rule = retentionRuleOf(table);
    return keepMs === undefined || rule === null ? [] : [{ rule, keepMs }];
  });
  try {
    const removed = await removeOld(db, retentions);
    const tables = Object.fromEntries(Object.entries(removed).filter(([, rows]) => rows > 0));
    if (Object.keys(tables).length > 0) log.info({ removed: tables }, "old_rows_removed");
  } catch (error) {
    log.warn(describeForLog(error), "retention_failed");
  }
}
