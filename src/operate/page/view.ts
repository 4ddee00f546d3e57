import type { JobServices } from "../../jobs/services.ts";
import type { LedgerHistoryRow } from "../../load/history/ledger-history.ts";
import type { StatusReport } from "../../jobs/report/status.ts";
import type { Html } from "./elements.ts";

/** Sources of the sections. */
export interface View {
  readonly services: Pick<JobServices, "config" | "db" | "log">;
  readonly status: StatusReport;
  /** Reads the ledger of {@link CHART_DAYS}; once per page, because it is the largest table read. */
  readonly ledger: () => Promise<readonly LedgerHistoryRow[]>;
  /** Time of the page, in milliseconds since the epoch. */
  readonly nowMs: number;
}

/** Section of the page. */
export interface Section {
  readonly id: string;
  readonly title: string;
  /** Reads and renders its content, without the heading. */
  readonly show: (view: View) => Promise<Html>;
}

/** UTC day some days before an instant: `2026-11-21`. */
export function dayBefore(nowMs: number, days: number): string {
  return new Date(nowMs - days * 86_400_000).toISOString().slice(0, 10);
}

/** Days shown by charts. */
export const CHART_DAYS = 90;
