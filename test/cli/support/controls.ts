import type { ChildProcess } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { requestsOfJobs, type SeenRequests } from "../../support/requests-of-jobs.ts";
import type { Setting } from "./setting.ts";

/** Requests that reached the sandbox, including unanswered ones. */
export async function callsSeen(sandbox: string): Promise<number> {
  // Answer of the sandbox's controls.
  return requestsOfJobs((await (await fetch(`${sandbox}/_sandbox/ledger`)).json()) as SeenRequests);
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
  const response = await fetch(`${sandbox}/_sandbox/faults`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ faults }),
  });
  if (!response.ok) throw new Error(`the sandbox refused the faults: ${response.status}`);
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
