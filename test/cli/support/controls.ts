import type { ChildProcess } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { requestsOfJobs } from "../../support/requests-of-jobs.ts";
import { controlSandbox } from "../../support/sandbox-control.ts";
import type { Setting } from "./setting.ts";

/** Requests that reached the sandbox. */
export interface Ledger {
  readonly requests: number;
  readonly contents: { readonly received_more_than_once: number; readonly distinct_records: number };
  /** By method and path. */
  readonly endpoints: Readonly<Record<string, { readonly requests: number; readonly records: number }>>;
}

export const readLedger = (sandbox: string) => controlSandbox<Ledger>(sandbox, "/ledger");

/** Requests that reached the sandbox, including unanswered ones. */
export async function callsSeen(sandbox: string): Promise<number> {
  return requestsOfJobs(await readLedger(sandbox));
}

/** Waits until this many requests have reached the sandbox; throws if the sending process ends before. */
export async function untilCalled(sandbox: string, calls: number, child: ChildProcess): Promise<void> {
  while ((await callsSeen(sandbox)) < calls) {
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new Error(`the process has ended before ${calls} calls were seen`);
    }
    await delay(5);
  }
}

/** Sets the sandbox's faults. */
export async function setFaults(sandbox: string, faults: string): Promise<void> {
  await controlSandbox(sandbox, "/faults", { faults });
}

/**
 * Stops a run with SIGSTOP while none of its sessions is in a transaction: an open one would keep its locks
 * until the process continues, and block others.
 */
export async function stopAtRest(child: ChildProcess, { query }: Pick<Setting, "query">): Promise<void> {
  for (;;) {
    if (!child.kill("SIGSTOP")) throw new Error("the process has ended before it was stopped");
    // Its last request reaches the server.
    await delay(100);
    const busy = await query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
         AND backend_type = 'client backend' AND state <> 'idle'`,
    );
    if (busy.length === 0) return;
    child.kill("SIGCONT");
    await delay(50);
  }
}
