import type { Problems } from "../problems.ts";
import { entriesOf, type JobLinks, type Links } from "./links.ts";

/** The jobs that must come first: named by `after`, or because something of theirs is used; no repetitions. */
export function predecessorsOf(
  job: Pick<JobLinks, "after" | "pid_from" | "valid_emails_from" | "segments">,
): readonly string[] {
  const used = [job.pid_from, job.valid_emails_from, ...job.segments.map((segment) => segment.job)];
  return [...new Set([...job.after, ...used.filter((name) => name !== undefined)])];
}

/** Adds a problem for each circle of jobs that wait for one another. */
export function checkCycles(links: Links, problems: Problems): void {
  const waitsFor = new Map(entriesOf(links.jobs).map(([name, job]) => [name, predecessorsOf(job)] as const));
  const done = new Set<string>();

  function visit(name: string, trail: readonly string[]): void {
    const start = trail.indexOf(name);
    if (start >= 0) {
      const circle = trail.slice(start);
      problems.add(["jobs", name], {
        message: `waits for itself: ${[...circle, name].join(" → ")} (each after the next)`,
        hint: "remove one of these from `after`, `pid_from`, `valid_emails_from` or `segments`",
      });
      return;
    }
    if (done.has(name)) return;
    for (const other of waitsFor.get(name) ?? []) visit(other, [...trail, name]);
    done.add(name);
  }
  for (const name of waitsFor.keys()) visit(name, []);
}
