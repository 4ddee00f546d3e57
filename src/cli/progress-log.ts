import type { Progress } from "../jobs/services.ts";
import type { Log } from "../log.ts";

/** Milliseconds between two lines of a job. */
const EVERY_MS = 10_000;

/** Progress without a terminal: a log line from time to time. */
export function createProgressLog(log: Log): Progress {
  const jobs = new Map<string, { total: number; done: number; loggedAtMs: number; figures: object }>();
  return {
    start(job, total, label) {
      jobs.set(job, { total, done: 0, loggedAtMs: performance.now(), figures: {} });
      log.debug({ job, records_total: total, label }, "sending");
    },
    advance(job, by, figures) {
      const entry = jobs.get(job);
      if (!entry) return;
      entry.done += by;
      entry.figures = { ...entry.figures, ...figures };
      if (performance.now() - entry.loggedAtMs < EVERY_MS) return;
      entry.loggedAtMs = performance.now();
      log.info({ job, records_done: entry.done, records_total: entry.total, ...entry.figures }, "progress");
    },
    note(job, text) {
      log.debug({ job, text }, "note");
    },
    end(job) {
      jobs.delete(job);
    },
  };
}
