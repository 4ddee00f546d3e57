import type { Path, Problems } from "../problems.ts";
import { entriesOf, type Links } from "./links.ts";

/** Job types that this version runs. */
export const availableJobTypes: readonly string[] = [
  "resolve",
  "validate_emails",
  "enrich",
  "segment_members",
  "segment_push",
  "death_signals",
  "search_usage",
  "endpoint_usage",
];

/** Adds a problem for each setting that the schema knows but this version can't honour; answers how many. */
export function checkAvailability(links: Links, jobTypes: readonly string[], problems: Problems): number {
  let refused = 0;
  const refuse = (path: Path, what: string | null, hint: string) => {
    if (problems.has(path)) return;
    refused += 1;
    const subject = what === null ? "" : `says ${what}, which `;
    problems.add(path, { message: `${subject}is not available in this version`, hint });
  };
  if (links.budgets?.unlock !== undefined) refuse(["budgets", "unlock"], null, "remove the line");
  for (const [name, job] of entriesOf(links.jobs)) {
    if (!job.enabled || job.type === undefined || !jobTypes.includes(job.type)) continue;
    if (availableJobTypes.some((type) => type === job.type)) continue;
    refuse(
      ["jobs", name, "type"],
      job.type,
      `remove the job, or set enabled: false; there is ${availableJobTypes.join(", ")}`,
    );
  }
  return refused;
}
