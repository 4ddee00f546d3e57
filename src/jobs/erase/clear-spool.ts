import { setTimeout as delay } from "node:timers/promises";
import type { Config } from "../../config/config.ts";
import { removeDamaged } from "../../spool/remove-damaged.ts";
import { type SpoolContent, surveySpool } from "../../spool/survey-spool.ts";
import { holdJob } from "../hold-job.ts";
import { openJobSpool, spoolNameOf, spoolRoot } from "../lookup/job-spool.ts";
import { loadKept } from "../lookup/load-kept.ts";
import { createOutage } from "../outage.ts";
import type { JobServices } from "../services.ts";

/** What clearing works with. */
export type ClearServices = Pick<JobServices, "config" | "db" | "clock" | "log" | "signal" | "progress">;

/** What became of received answers that waited on disk. */
export interface SpoolClearing {
  /** Calls whose answers were loaded, without the erased. */
  readonly loadedCalls: number;
  /** Files that could not be read and were removed. */
  readonly removedFiles: number;
  /** Calls that a running process keeps: it will load them without the erased. */
  readonly waiting: readonly { readonly job: string; readonly calls: number }[];
}

/** How long to wait for processes that load their own answers. */
const WAIT_MS = 30_000;
const POLL_MS = 250;

/**
 * Loads the received answers that wait in this data_dir for this warehouse, so that no file is left that could name somebody
 * whom the warehouse keeps out. Answers of a running job are its own; they are waited for.
 */
export async function clearSpool(services: ClearServices): Promise<SpoolClearing> {
  const { config, db } = services;
  const root = spoolRoot(config);
  const name = await spoolNameOf(db);
  const { contents, damaged } = await surveySpool(root);
  let loadedCalls = 0;
  const held: SpoolContent[] = [];
  for (const content of contents.filter((one) => one.warehouse === name)) {
    if (await loadContent(services, content)) loadedCalls += content.calls;
    else held.push(content);
  }
  let removedFiles = 0;
  for (const one of damaged.filter((folder) => folder.warehouse === name)) {
    removedFiles += await removeDamaged(one.folder);
  }
  return { loadedCalls, removedFiles, waiting: await waitFor(root, held) };
}

/** Loads what one shard of a job has on disk; false where a running process has the job. */
async function loadContent(services: ClearServices, { job, shard }: SpoolContent): Promise<boolean> {
  const { config, db, clock, log } = services;
  const jobType = jobTypeOf(config, job);
  const hold = await holdJob(services, { runId: "erase", job, jobType, shard }, { wait: false });
  if (hold.kind === "refused") return false;
  const { run, signal, release } = hold.held;
  try {
    const { retryForMs } = config.warehouse;
    const outage = createOutage({ clock, log, signal, retryForMs, job });
    const spool = await openJobSpool(config, db, run);
    await loadKept({ ...services, signal }, { run, spool, outage });
  } finally {
    await release();
  }
  return true;
}

function jobTypeOf({ jobs }: Config, name: string): string {
  return jobs.find((job) => job.name === name)?.type ?? "unknown";
}

/** Waits until running processes have loaded what they had; returns what is left when the time is over. */
async function waitFor(root: string, held: readonly SpoolContent[]): Promise<SpoolClearing["waiting"]> {
  const endsAtMs = performance.now() + WAIT_MS;
  let left = held;
  while (left.length > 0 && performance.now() < endsAtMs) {
    await delay(POLL_MS);
    const { contents } = await surveySpool(root);
    left = left.filter(({ folder, callIds }) =>
      contents.some((now) => now.folder === folder && now.callIds.some((id) => callIds.includes(id))),
    );
  }
  return left.map(({ job, calls }) => ({ job, calls }));
}
