import { type SampleInput, sampleInputs } from "../../packages/sandbox/src/sample-inputs.ts";
import { startSandbox } from "../../packages/sandbox/src/start-sandbox.ts";
import { buildRequest } from "../../src/extract/batches.ts";
import { type Lookup, type LookupJobConfig, lookupOf } from "../../src/jobs/lookup/lookup-types.ts";
import type { LookupRecord } from "../../src/load/lookups/lookup.ts";
import { isJsonObject } from "../../src/schemas/flatten.ts";
import { enrichJob, recordOf, resolveJob, validateJob } from "../jobs/support.ts";
import type { AnswerParts } from "./answer-mutations.ts";

/** A batch of records with the sandbox's answer. */
export interface RealAnswer {
  readonly bound: Lookup;
  readonly records: readonly LookupRecord[];
  /** The results in the order of the records. */
  readonly parts: AnswerParts;
}

const JOBS: readonly LookupJobConfig[] = [enrichJob, resolveJob, validateJob];

function filled(...values: readonly (string | null)[]): string[] {
  return values.filter((value): value is string => value !== null && value.trim() !== "");
}

/** Record of an input row for each type of job; null for a row without content to send. */
function recordFor(job: LookupJobConfig, row: SampleInput): Pick<LookupRecord, "json" | "address"> | null {
  const emails = filled(row.email, row.work_email);
  const [address] = emails;
  if (job.type === "validate_emails") {
    return address === undefined ? null : { json: JSON.stringify(address), address };
  }
  const name = { first_name: row.first_name, last_name: row.last_name };
  const json = JSON.stringify({ ...name, emails, phones: filled(row.phone) });
  return emails.length === 0 ? null : { json };
}

/** Parts of a sound answer. */
export function partsOf(body: string): AnswerParts {
  const parsed: unknown = JSON.parse(body);
  if (!isJsonObject(parsed) || !Array.isArray(parsed["results"]))
    throw new Error("the sandbox returned no results");
  return {
    apiRequestId: JSON.stringify(parsed["api_request_id"]),
    completedAt: JSON.stringify(parsed["request_completed_at"]),
    results: parsed["results"].map((result) => JSON.stringify(result)),
    resultsLast: body.endsWith("]}"),
  };
}

/** Requests batches of each endpoint from a real sandbox, of one to `maxRecords` records each. */
export async function askForAnswers(
  seed: number,
  batches: number,
  maxRecords: number,
): Promise<readonly RealAnswer[]> {
  const people = 5000;
  const sandbox = await startSandbox({ seed, people, compresses: false });
  const rows = [...sampleInputs({ seed, people, rows: batches * maxRecords * JOBS.length })];
  const answers: RealAnswer[] = [];
  try {
    for (let n = 0; n < batches * JOBS.length; n++) {
      const job = JOBS[n % JOBS.length] ?? enrichJob;
      const bound = lookupOf(job);
      const size = 1 + (n % maxRecords);
      const batch = new Map<string, LookupRecord>();
      for (const row of rows.slice(n * maxRecords, n * maxRecords + size)) {
        const record = recordFor(job, row);
        if (record) batch.set(record.json, { ...recordOf(`r${row.id}`), ...record });
      }
      const records = [...batch.values()];
      if (records.length === 0) continue;
      const response = await fetch(sandbox.url + bound.endpoint.path, {
        method: "POST",
        headers: { "x-api-key": "key", "content-type": "application/json" },
        body: buildRequest(bound.endpoint, {}, records).body,
      });
      answers.push({ bound, records, parts: partsOf(await response.text()) });
    }
  } finally {
    await sandbox.close();
  }
  return answers;
}
