import type { Problems } from "../problems.ts";
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
