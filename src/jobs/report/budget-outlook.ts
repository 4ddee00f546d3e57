import { DAY_MS } from "../usage/calendar.ts";
import type { Config } from "../../config/config.ts";
import type { BudgetReport } from "./budget-report.ts";
import type { LedgerDay } from "../../load/ledger/costs.ts";

/** Budget with its predicted duration. */
export interface BudgetOutlook extends BudgetReport {
  /** End of the period, when the budget is reset. */
  readonly resets_at: string;
  /** Time at which it will be used up at the recent pace; null if it lasts for the period. */
  readonly lasts_until: string | null;
}

/** Predicts when budgets will be used up, from the ledger's last days (UTC). */
export function budgetOutlooks(
  config: Pick<Config, "jobs">,
  budgets: readonly BudgetReport[],
  days: readonly LedgerDay[],
  nowMs: number,
): readonly BudgetOutlook[] {
  return budgets.map((budget) => {
    const resetsMs = endOfPeriod(budget.period, nowMs);
    const pace = recordsPerMs(config, budget.budget, days, nowMs);
    const lastsMs = budget.left === 0 ? nowMs : nowMs + budget.left / pace;
    return {
      ...budget,
      resets_at: new Date(resetsMs).toISOString(),
      // A job sends everything at once, so within a day only a used-up budget is meaningful.
      lasts_until:
        lastsMs < resetsMs && (budget.period === "month" || budget.left === 0)
          ? new Date(lastsMs).toISOString()
          : null,
    };
  });
}

function endOfPeriod(period: BudgetReport["period"], nowMs: number): number {
  const now = new Date(nowMs);
  const [year, month, day] = [now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate()];
  return period === "day" ? Date.UTC(year, month, day + 1) : Date.UTC(year, month + 1, 1);
}

/** Mean since the first day in the ledger. */
function recordsPerMs(
  { jobs }: Pick<Config, "jobs">,
  budget: string,
  days: readonly LedgerDay[],
  nowMs: number,
): number {
  const ofType = days.filter(({ job }) => jobs.find(({ name }) => name === job)?.type === budget);
  const sent = ofType.reduce((sum, day) => sum + day.recordsSent, 0);
  const firstMs = Math.min(nowMs, ...ofType.map(({ day }) => Date.parse(`${day}T00:00:00Z`)));
  return sent / Math.max(nowMs - firstMs, DAY_MS);
}
