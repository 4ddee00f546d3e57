import { describeForLog } from "../../errors.ts";
import { count, countText } from "../../figures.ts";
import { isLookupJob } from "../lookup/lookup-types.ts";
import type { RunReport } from "../job.ts";
import type { JobServices } from "../services.ts";
import { type PeopleChanged, readPeopleChanged } from "../../load/lookups/person-history.ts";

/** Field groups in the order of the sentence, each with its noun for one person and for several. */
const nouns: Readonly<Record<string, readonly [one: string, several: string]>> = {
  work_experience: ["job", "jobs"],
  address_history: ["address", "addresses"],
  personal_emails: ["personal e-mail", "personal e-mails"],
  professional_emails: ["professional e-mail", "professional e-mails"],
  phones: ["phone", "phones"],
  relatives: ["relative", "relatives"],
  education_experience: ["school", "schools"],
  scalars: ["other field", "other fields"],
};

/** `1,204 people changed: 311 jobs, 402 addresses`: people by field group. */
export function peopleChangedText({ people, by_field_group: groups }: Omit<PeopleChanged, "run_id">): string {
  const parts = Object.entries(nouns).flatMap(([group, [one, several]]) => {
    const changed = groups[group] ?? 0;
    return changed === 0 ? [] : [`${count(changed)} ${changed === 1 ? one : several}`];
  });
  return `${countText(people, "person", "people")} changed: ${parts.join(", ")}`;
}

/** Adds what a run changed in people to its report and the log; nothing if it changed no one or no history is kept. */
export async function addPeopleChanged(
  { config, db, log }: Pick<JobServices, "config" | "db" | "log">,
  report: RunReport,
): Promise<RunReport> {
  const lookups = config.jobs.filter(isLookupJob).map(({ name }) => name);
  const hasWritten = report.jobs.some(({ job, rows_written: rows }) => rows > 0 && lookups.includes(job));
  if (!hasWritten || !config.history.people) return report;
  try {
    const changed = await db.transaction((session) => readPeopleChanged(session, report.run_id));
    if (changed === null) return report;
    const { run_id: _, ...people_changed } = changed;
    log.info(people_changed, "people_changed");
    return { ...report, people_changed };
  } catch (error) {
    log.warn(describeForLog(error), "people_changed_unknown");
    return report;
  }
}
