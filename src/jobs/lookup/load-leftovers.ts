import { countText } from "../../figures.ts";
import { type LoadableCall, type LoaderOptions, type LoadServices, openLoader } from "./loader.ts";
import { stopReason } from "../stop-reason.ts";

/**
 * Loads answers that earlier runs of a job received but did not commit, under the IDs and parameters of those runs.
 * Returns when all are committed or quarantined.
 */
export async function loadLeftovers(
  services: LoadServices,
  options: Omit<LoaderOptions, "areLeftOver">,
): Promise<void> {
  const { log, progress, signal } = services;
  const { run, spool } = options;
  const calls = await spool.leftovers();
  if (calls.length === 0) return;
  progress.note(run.job, `Loading ${countText(calls.length, "answer")} received by earlier runs.`);
  const loader = openLoader(services, { ...options, areLeftOver: true });
  const commits = new Set<Promise<void>>();
  const failures: unknown[] = [];
  let records = 0;

  async function commit(call: LoadableCall): Promise<void> {
    try {
      const { answers } = await loader.commit(call);
      records += answers.length;
    } catch (error) {
      failures.push(error);
    }
  }

  for (const file of calls) {
    if (failures.length > 0 || signal.aborted) break;
    const call = await loader.read(file);
    if (call) commits.add(commit(call));
  }
  await Promise.all(commits);
  log.info({ job: run.job, calls: calls.length, loaded_records: records }, "spooled_answers_loaded");
  if (failures.length > 0) throw failures[0];
  if (signal.aborted) throw stopReason(signal);
}
