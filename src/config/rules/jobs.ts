import type { Problems } from "../problems.ts";
import { listFields, scalarFields } from "../schema/inputs.ts";
import type { JobDeclaration, WrittenJob } from "../schema/jobs.ts";
import { entriesOf, entryNamed, isEnabled, type WrittenFile } from "../written-file.ts";

/** Checks the rules of the job types, and that there is a job. */
export function checkJobs(file: WrittenFile, jobTypes: readonly JobDeclaration[], problems: Problems): void {
  if (Object.keys(file.jobs).length === 0 && !problems.hasBelow(["jobs"])) {
    problems.add(["jobs"], {
      message: "has no job",
      hint: "see config.example.yaml, or create one with `person-etl init`",
    });
  }
  for (const { type, complaints } of jobTypes) {
    const earlier = new Map<string, WrittenJob>();
    for (const [name, job] of entriesOf(file.jobs)) {
      if (job["type"] !== type || !complaints) continue;
      const inputFields = fieldsOf(file, String(job["input"]), problems);
      for (const { path, ...complaint } of complaints(job, { inputFields, earlier })) {
        problems.add(["jobs", name, ...path], complaint);
      }
      if (isEnabled(job)) earlier.set(name, job);
    }
  }
}

/** Fields mapped by an input; null if unknown, also because one of them has a problem of its own. */
function fieldsOf({ inputs }: WrittenFile, input: string, problems: Problems): readonly string[] | null {
  const fields = entryNamed(inputs, input)?.fields;
  if (fields === undefined || problems.hasBelow(["inputs", input, "fields"])) return null;
  const names = Object.keys(fields);
  return names.every((name) => known.includes(name)) ? names : null;
}

const known: readonly string[] = [...scalarFields, ...listFields];

/** Checks that budgets are set by job type, not by job. */
export function checkBudgets({ budgets, jobs }: WrittenFile, problems: Problems): void {
  for (const name of Object.keys(budgets).filter((budget) => Object.hasOwn(jobs, budget))) {
    const type = jobs[name]?.["type"];
    if (type === name) continue;
    problems.add(["budgets", name], {
      message: "is a job: budgets apply to all jobs of a type",
      hint: typeof type === "string" ? `write ${type}` : "write the type of the job",
    });
  }
}
