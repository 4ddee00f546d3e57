import { mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inject, onTestFinished } from "vitest";
import type { RunReport } from "../../src/jobs/job.ts";
import type { RunRequest } from "../../src/jobs/services.ts";
import { concludeRun } from "../../src/operate/overview.ts";
import type { World } from "../jobs/world.ts";
import { startServer } from "../support/http-proxy.ts";

interface Post {
  readonly alerts: readonly { readonly subject: string; readonly state: string; readonly message: string }[];
}

interface Webhook {
  /** Setting `webhook` for the configuration. */
  readonly setting: string;
  /** 0 closes the connection without a response. */
  status: number;
  /** Requests so far. */
  requests: number;
  /** Removes and returns what was posted so far. */
  take(): readonly (readonly [subject: string, state: string, message: string])[];
}

/** Starts a webhook that stores what it accepts. */
export async function startWebhook(): Promise<Webhook> {
  const posted: string[] = [];
  const server = await startServer((request, response, body) => {
    webhook.requests += 1;
    if (webhook.status === 200) posted.push(body.toString());
    if (webhook.status === 0) request.socket.destroy();
    else response.writeHead(webhook.status).end();
  });
  onTestFinished(server.close);
  const file = join(await mkdtemp(join(inject("runFolder"), "webhook-")), "address");
  await writeFile(file, server.url, { mode: 0o600 });
  const webhook: Webhook = {
    setting: `file:${file}`,
    status: 200,
    requests: 0,
    take: () =>
      posted.splice(0).flatMap((body) => {
        const { alerts } = JSON.parse(body) as Post;
        return alerts.map(({ subject, state, message }) => [subject, state, message] as const);
      }),
  };
  return webhook;
}

/** Ends a run as the commands do. */
export async function conclude(world: World, report: RunReport): Promise<void> {
  await concludeRun(await world.services(), report, { isWhole: false });
}

/** Runs jobs and ends the run. */
export async function runAndConclude(world: World, request: Partial<RunRequest> = {}): Promise<RunReport> {
  const report = await world.run(request);
  await conclude(world, report);
  return report;
}

/** Events logged as warnings. */
export const warnings = ({ logged }: World) =>
  logged.flatMap(({ level, event }) => (level === "warn" ? event : []));
