import type { JobServices } from "../../jobs/services.ts";
import type { StatusReport } from "../../jobs/report/status.ts";
import { readLedgerHistory } from "../../load/history/ledger-history.ts";
import { remembered } from "../remembered.ts";
import type { Html } from "./elements.ts";
import { renderPage } from "./render-page.ts";
import { showRunning } from "./sections/running.ts";
import { CHART_DAYS } from "./view.ts";

/** Renders the page on request. */
export interface LivePage {
  /** Whole page; null if the warehouse doesn't answer. */
  readonly page: () => Promise<Html | null>;
  /** Its part on running jobs. */
  readonly running: () => Promise<Html>;
}

/** Requests within this time share one rendering, so that many readers cost as much as one. */
const LIFE_MS = 2_000;

/** Creates the page of the current services. */
export function createLivePage(
  services: () => Pick<JobServices, "config" | "db" | "clock" | "log">,
  readStatus: () => Promise<StatusReport | null>,
): LivePage {
  const page = remembered(LIFE_MS, async () => {
    const status = await readStatus();
    const { db, clock } = services();
    const ledger = remembered(Number.POSITIVE_INFINITY, () => readLedgerHistory(db, CHART_DAYS));
    return status && renderPage({ services: services(), status, ledger: () => ledger(), nowMs: clock.now() });
  });
  const running = remembered(LIFE_MS, () =>
    showRunning({ services: services(), nowMs: services().clock.now() }),
  );
  return { page: () => page(), running: () => running() };
}
