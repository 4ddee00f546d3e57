import type { ChildProcess } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import type { Setting } from "./setting.ts";

/** Requests that reached the sandbox, those included that it hasn't answered yet. */
export async function callsSeen(sandbox: string): Promise<number> {
  // The sandbox's own controls answer so.
  const ledger = (await (await fetch(`${sandbox}/_sandbox/ledger`)).json()) as {
    requests: number;
    endpoints: Record<string, { requests: number }>;
  };
  // Each run asks for its organization first.
  return ledger.requests - (ledger.endpoints["GET /person-search/v0/usage"]?.requests ?? 0);
}

/** Waits until so many requests have reached the sandbox; throws when the process that is to send them has ended before. */
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
  if (!response.ok) throw new Error(`the sandbox takes no faults: ${response.status}`);
}

/**
 * Stops a run with SIGSTOP at a moment at which none of its sessions is in a transaction: such a one would keep its locks
 * until the process goes on, and whoever comes to them meanwhile would wait for that.
 */
export async function stopAtRest(child: ChildProcess, { query }: Pick<Setting, "query">): Promise<void> {
  for (;;) {
    if (!child.kill("SIGSTOP")) throw new Error("the process has ended before it was stopped");
    // What it asked for last reaches the server.
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
