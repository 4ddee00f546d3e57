import { html } from "hono/html";
import { count, durationText } from "../../../figures.ts";
import { readRunningJobs, type RunningJob } from "../../../load/history/running-jobs.ts";
import { bar, type Html, note, past, state, table } from "../elements.ts";
import type { View } from "../view.ts";

/** Renders what is running now; the page's script replaces it while the page is open. */
export async function showRunning({ services, nowMs }: Pick<View, "services" | "nowMs">): Promise<Html> {
  const { jobs, lastEndAt } = await readRunningJobs(services.db);
  return html`<div id="running" data-ended="${lastEndAt ?? ""}">${
    jobs.length === 0 ? note("Nothing is running.") : renderRunning(jobs, nowMs)
  }</div>`;
}

function renderRunning(jobs: readonly RunningJob[], nowMs: number): Html {
  return table(
    "Running jobs",
    [
      { name: "job" },
      { name: "state" },
      { name: "for", isNumber: true },
      { name: "sent", isNumber: true },
      { name: "due", isNumber: true },
      { name: "progress", isExtra: true },
      { name: "rows written", isNumber: true, isExtra: true },
      { name: "requests", isNumber: true, isExtra: true },
      { name: "run", isExtra: true },
      { name: "process", isExtra: true },
    ],
    jobs.map((job) => [
      job.shard === "0/1" ? job.job : `${job.job} (shard ${job.shard})`,
      job.isExpired
        ? html`${state("warn", "no heartbeat")} since ${past(job.heartbeatAt, nowMs)}; the next run takes over`
        : state("busy", "running"),
      durationText(Math.max(0, nowMs - Date.parse(job.since)) / 1000),
      job.recordsSent === null ? "" : count(job.recordsSent),
      job.recordsDue === null ? "" : count(job.recordsDue),
      job.recordsSent === null || job.recordsDue === null
        ? ""
        : bar(
            job.recordsSent,
            job.recordsDue,
            `${job.job}: ${count(job.recordsSent)} of ${count(job.recordsDue)} records`,
          ),
      count(job.rowsWritten),
      count(job.requests),
      job.runId,
      `${job.pid} on ${job.host}`,
    ]),
    "",
  );
}
