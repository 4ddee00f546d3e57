import { countMissing, lockGoneRows, readGoneRows } from "../../load/lookups/missing-rows.ts";
import { removeErased } from "../../load/erasure/remove.ts";
import { requestInRun } from "../../load/erasure/requests.ts";
import { inputSourceOf } from "./lookup-spec.ts";
import { findPeople } from "../../load/erasure/find.ts";
import { LimitReachedError } from "../../errors.ts";
import type { LookupJobConfig } from "./lookup-type.ts";
import { countText } from "../../figures.ts";
import { endOfError, type JobEnd } from "../job.ts";
import type { Counters } from "../run-report.ts";
import type { JobServices } from "../services.ts";
import type { LookupSpec } from "../../load/lookups/lookup.ts";
import type { RunRef } from "../../load/runs/run-ref.ts";

/** Finished run of a job. */
interface EndedPass {
  readonly job: LookupJobConfig;
  readonly run: RunRef;
  readonly spec: LookupSpec;
  readonly end: JobEnd;
  readonly counters: Counters;
}

/** Rows that are erased at once. */
const CHUNK = 10_000;

/**
 * Erases the people of rows that left the input (`on_missing: erase`), once three different runs missed a row over at least a day.
 * Acts after a complete run only. Returns how the job ends.
 */
export async function settleMissing(services: JobServices, pass: EndedPass): Promise<JobEnd> {
  const { spec, end, counters } = pass;
  const isComplete = end.status === "succeeded" && counters.records_remaining === 0;
  if (!isComplete || !spec.erasesMissing) return end;
  try {
    await settle(services, pass);
    return end;
  } catch (error) {
    return endOfError(error, "looking for rows that left the input");
  }
}

async function settle(
  { config, db, log, progress }: JobServices,
  { job, run, spec }: EndedPass,
): Promise<void> {
  const { name, maxMissingRatio } = job.input;
  const { inputRows, known, missing } = await countMissing(db, spec);
  if (missing === 0) return;
  log.info({ job: job.name, input: name, missing, known }, "rows_missing");
  if (inputRows === 0 || missing > maxMissingRatio * known) {
    throw new LimitReachedError(
      "missing_rows",
      `${job.name}: ${missing} of ${known} known rows left ${name}, more than inputs.${name}.max_missing_ratio ` +
        `(${maxMissingRatio}) allows. No one was erased. If the input is complete, raise the ratio for one run; ` +
        "an empty input erases no one.",
    );
  }
  let erased = 0;
  const inputs = await Promise.all(
    Object.values(config.inputs).map((input) => inputSourceOf(input, Object.keys(input.fields))),
  );
  for (;;) {
    const keys = await readGoneRows(db, run, name, CHUNK);
    if (keys.length === 0) break;
    const rows = keys.map((sourceKey) => ({ source: name, sourceKey }));
    // People named by other rows are kept.
    const found = await findPeople(db, { pids: [], emails: [], rows }, inputs, { spareOthers: true });
    const erasureId = await db.transaction(run, async (session) => {
      const locked = await lockGoneRows(session, db.names, run, rows);
      return locked === rows.length ? requestInRun(session, db, found) : null;
    });
    // Some rows are back; the next run checks again.
    if (erasureId === null) break;
    await removeErased(db, erasureId);
    erased += rows.length;
    log.info({ job: job.name, erasure_id: erasureId, input_rows: rows.length }, "missing_rows_erased");
  }
  if (erased === 0) return;
  progress.note(job.name, `${job.name}: erased ${countText(erased, "row")} that left ${name}.`);
}
