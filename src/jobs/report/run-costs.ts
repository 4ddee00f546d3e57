import { type BilledDay, readBilledInRun } from "../../load/ledger/costs.ts";
import { costOfBilled } from "../price.ts";
import { lookupTypes } from "../lookup/lookup-types.ts";
import type { RunReport } from "../run-report.ts";
import type { JobServices } from "../services.ts";

/** Adds the cost of each job that can be billed, and their sum, to a run's report; nothing without `prices`. */
export async function addCosts(
  { config, db, log }: Pick<JobServices, "config" | "db" | "log">,
  report: RunReport,
): Promise<RunReport> {
  if (config.prices === null) return report;
  const { currency } = config.prices;
  let rows: readonly BilledDay[];
  try {
    rows = await readBilledInRun(db, report.run_id);
  } catch (error) {
    log.warn({ error }, "cost_unknown");
    return report;
  }
  const jobs = report.jobs.map((job) => {
    const own = rows.filter((row) => row.job === job.job);
    const isBilled = own.length > 0 || lookupTypes.some(({ type }) => type === job.type);
    return isBilled ? { ...job, cost: costOfBilled(own, currency) } : job;
  });
  const named = rows.filter((row) => report.jobs.some(({ job }) => job === row.job));
  return { ...report, jobs, cost: costOfBilled(named, currency) };
}
