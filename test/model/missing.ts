import { isDue } from "./absences.ts";
import { fail } from "./laws.ts";
import { type ModelJob, names, stateName } from "./reference.ts";
import { type History, rowsOf } from "./setting.ts";

/** Keys of customers that were erased since the last call. */
export async function learnTombstones(h: History): Promise<ReadonlySet<string>> {
  const rows = await h.world.rows<{ key: string }>(
    `SELECT source_key AS key FROM tombstone WHERE source = '${h.naming.customers}'`,
  );
  const keys = new Set(rows.map(({ key }) => key).filter((key) => !h.tombstones.has(key)));
  for (const key of keys) h.tombstones.add(key);
  return keys;
}

/**
 * Counts the keys that a run of a job missed, or may have; returns those that it may erase.
 * @param erased keys that are erased; null for a run that may leave some for the next one
 */
export function countAbsences(
  h: History,
  job: ModelJob,
  isSure: boolean,
  erased: ReadonlySet<string> | null,
): readonly string[] {
  const name = stateName(job);
  const rows = rowsOf(h, job).filter(({ id }) => id !== null);
  const present = new Set(
    rows.filter((row) => !names(h.reference.erased, JSON.stringify(row))).map(({ id }) => String(id)),
  );
  h.absences.count(name, { day: h.reference.day, present, definition: h.naming.where, isSure });
  if (job.input.table === "leads" || !h.shape.erasesMissing) return [];
  const absences = [...h.absences.of(name)].map(
    ([key, absence]) => [key, isDue(absence, h.reference.day)] as const,
  );
  const kept = absences.filter(([key, { must }]) => must && erased?.has(key) === false);
  if (kept.length > 0) fail("who is missing for long enough is erased", { job: job.name, kept });
  return absences.flatMap(([key, { may }]) => (may ? [key] : []));
}

/** Erases in the reference whom the runs erased; nobody else was due. */
export function forgetErased(h: History, erased: ReadonlySet<string>, missing: ReadonlySet<string>): void {
  if (erased.size > 0) h.log(`  erased ${[...erased].join(" ")}`);
  for (const key of erased) {
    if (!missing.has(key)) fail("only who is missing for long enough is erased", { key, missing });
    const row = h.gone.find(({ id }) => String(id) === key);
    if (row) h.reference.erased.add(String(row.name).toLowerCase());
  }
  h.absences.forget(erased);
  h.totals.erasures += erased.size;
}

/** Keys that left are kept as missing, and counted, until they are erased. */
export async function checkMissing(h: History, job: ModelJob): Promise<void> {
  const rows = await h.world.rows<{ key: string; runs: number }>(
    `SELECT source_key AS key, missing_runs::int AS runs FROM person_data_state.lookup_row
     WHERE job = '${job.name}' AND source = '${job.input.name}' AND missing_since IS NOT NULL`,
  );
  const runsOf = new Map(rows.map(({ key, runs }) => [key, runs]));
  const isCounted = h.shape.erasesMissing && job.input.table === "customers";
  for (const [key, { least, most }] of h.absences.of(stateName(job))) {
    const runs = runsOf.get(key);
    runsOf.delete(key);
    const isRight =
      runs === undefined ? least <= 0 : most > 0 && (!isCounted || (runs >= least && runs <= most));
    if (!isRight) fail("a run that misses a key counts it", { job: job.name, key, runs, least, most });
  }
  if (runsOf.size > 0) fail("only keys that left are missing", { job: job.name, keys: [...runsOf.keys()] });
}
