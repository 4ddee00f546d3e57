import { noteMissingRows, readMissingRows } from "../../load/due/missing-rows.ts";
import { noteErasure, removeErased } from "../../load/erasure/erase-people.ts";
import { findPeople } from "../../load/erasure/find-people.ts";
import { randomUUID } from "node:crypto";
import { LimitReachedError } from "../../errors.ts";
import type { LookupSpec, RunRef } from "../../load/lookup.ts";
import type { LookupJobConfig } from "./lookup-type.ts";
import { countText } from "./estimate.ts";
import { endOfError, type JobEnd } from "../job-end.ts";
import type { Counters } from "../run-report.ts";
import type { JobServices } from "../services.ts";

/** A job's run that has ended. */
export interface EndedPass {
  readonly job: LookupJobConfig;
  readonly run: RunRef;
  readonly spec: LookupSpec;
  readonly end: JobEnd;
  readonly counters: Counters;
}

/** Rows that are erased at once. */
const CHUNK = 10_000;

/**
 * Does what `on_missing` says with the rows that have left the input, after a complete pass only. Answers how the job ends then:
 * with an error of its own where so many are gone that the input itself must be in doubt.
 */
export async function settleMissing(services: JobServices, pass: EndedPass): Promise<JobEnd> {
  const { job, spec, end, counters } = pass;
  const isComplete = end.status === "succeeded" && counters.records_remaining === 0;
  // One shard does it for all of them.
  if (job.input.onMissing === "keep" || !isComplete || (spec.shard?.index ?? 0) > 0) return end;
  try {
    await settle(services, pass);
    return end;
  } catch (error) {
    return endOfError(error);
  }
}

async function settle({ db, log, progress }: JobServices, { job, run, spec }: EndedPass): Promise<void> {
  const { name, onMissing, maxMissingRatio } = job.input;
  const { inputRows, known, missing } = await noteMissingRows(db, run, spec);
  if (missing === 0) return;
  log.info({ job: job.name, input: name, missing, known }, "rows_missing");
  if (onMissing === "flag") {
    progress.note(
      job.name,
      `${job.name}: ${countText(missing, "row")} of ${name} left the input (missing_input_row).`,
    );
    return;
  }
  if (inputRows === 0 || missing > maxMissingRatio * known) {
    throw new LimitReachedError(
      "missing_rows",
      `${job.name}: ${missing} of ${known} known rows have left ${name}, more than inputs.${name}.max_missing_ratio ` +
        `(${maxMissingRatio}) allows, so nobody was erased. Is the input complete? If it is, raise the ratio for one run; ` +
        "an empty input erases nobody.",
    );
  }
  let rows = 0;
  for (;;) {
    const keys = await readMissingRows(db, name, CHUNK);
    if (keys.length === 0) break;
    const gone = keys.map((sourceKey) => ({ source: name, sourceKey }));
    // Somebody who has another row there is still wanted.
    const found = await findPeople(db, { pids: [], emails: [], rows: gone }, [], {
      spareOthers: true,
    });
    const erasureId = randomUUID();
    await noteErasure(db, erasureId, found);
    const removed = await removeErased(db, erasureId);
    rows += Object.values(removed).reduce((sum, count) => sum + count, 0);
    log.info({ job: job.name, erasure_id: erasureId, input_rows: keys.length }, "missing_rows_erased");
  }
  progress.note(
    job.name,
    `${job.name}: erased what was known of ${countText(missing, "row")} that left ${name}, ${countText(rows, "table row")}.`,
  );
}
