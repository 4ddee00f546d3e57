import type { Path, Problems } from "../problems.ts";
import { laterJobTypes } from "../schema/document.ts";
import type { JobDeclaration, WrittenJob } from "../schema/jobs.ts";
import { entriesOf, entryNamed, isEnabled, type WrittenFile } from "../written-file.ts";

/** Checks the rules of the job types, and that there is a job. */
export function checkJobs(file: WrittenFile, jobTypes: readonly JobDeclaration[], problems: Problems): void {
  if (Object.keys(file.jobs).length === 0) {
    problems.add(["jobs"], {
      message: "has no job",
      hint: "see config.example.yaml, or create one with `person-etl init`",
    });
  }
  for (const { type, complaints } of jobTypes) {
    const earlier = new Map<string, WrittenJob>();
    for (const [name, job] of entriesOf(file.jobs)) {
      if (job["type"] !== type || !complaints) continue;
      const fields = entryNamed(file.inputs, String(job["input"]))?.fields;
      const inputFields = fields === undefined ? null : Object.keys(fields);
      for (const { path, ...complaint } of complaints(job, { inputFields, earlier })) {
        problems.add(["jobs", name, ...path], complaint);
      }
      if (isEnabled(job)) earlier.set(name, job);
    }
  }
}

/** Rejects settings that are valid but not available in this version. Returns their number. */
export function checkAvailability(
  { jobs, budgets }: WrittenFile,
  jobTypes: readonly JobDeclaration[],
  problems: Problems,
): number {
  let refused = 0;
  const refuse = (path: Path, what: string | null, hint: string) => {
    if (problems.has(path)) return;
    refused += 1;
    const subject = what === null ? "" : `is ${what}, which `;
    problems.add(path, { message: `${subject}is not available in this version`, hint });
  };
  if (budgets?.unlock !== undefined) refuse(["budgets", "unlock"], null, "remove the line");
  for (const [name, job] of entriesOf(jobs)) {
    const { type } = job;
    if (!isEnabled(job) || typeof type !== "string" || !laterJobTypes.includes(type)) continue;
    const available = jobTypes.map((declared) => declared.type).join(", ");
    refuse(
      ["jobs", name, "type"],
      type,
      `remove the job, or set enabled: false; available types: ${available}`,
    );
  }
  return refused;
}
