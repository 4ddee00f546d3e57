import type { Problems } from "../problems.ts";
import { entriesOf, entryNamed, type Links } from "./links.ts";

/** Notes jobs that use the answers of a job that is switched off: rows that it never answered wait for ever. */
export function noteDisabledSources(links: Links, warnings: Problems): void {
  for (const [name, job] of entriesOf(links.jobs)) {
    for (const setting of ["pid_from", "valid_emails_from"] as const) {
      const other = job[setting];
      if (!job.enabled || other === undefined || entryNamed(links.jobs, other)?.enabled !== false) continue;
      warnings.add(["jobs", name, setting], {
        message: "names a job that is switched off: its answers stay as they are",
        hint: "switch it on, or remove this line",
      });
    }
  }
}
