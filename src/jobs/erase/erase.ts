import { countPeople, noteErasure, readOpenErasures, removeErased } from "../../load/erasure/erase-people.ts";
import { findPeople } from "../../load/erasure/find-people.ts";
import { checkInput } from "../../load/inputs/check-input.ts";
import { randomUUID } from "node:crypto";
import type { FoundPeople, KnownBy, RowsByTable } from "../../load/erasure/people.ts";
import type { InputSource } from "../../load/lookup.ts";
import { crashPoint } from "../../crash-point.ts";
import type { Problem } from "../../errors.ts";
import { clearSpool, type ClearServices, type SpoolClearing } from "./clear-spool.ts";
import type { LeftSegments } from "./leave-segments.ts";
import { inputSourceOf } from "../lookup/lookup-spec.ts";
import { throwProblems } from "../read-source.ts";

/** What an erasure works with. */
export type EraseServices = ClearServices;

/** Whom an erasure would be about, and what it would remove. */
export interface ErasurePlan {
  readonly found: FoundPeople;
  /** Rows removed or changed, by table. */
  readonly rows: RowsByTable;
}

/** What an erasure has done. */
export interface ErasureResult {
  readonly erasureId: string;
  readonly rows: RowsByTable;
  readonly spool: SpoolClearing;
  /** Null where the people were to stay in the service's segments. */
  readonly left: LeftSegments | null;
}

/** Sees that people can be looked for in every input; throws all problems at once. Touches nothing. */
export async function verifySearch({ config, db }: Pick<EraseServices, "config" | "db">): Promise<void> {
  const problems: Problem[] = [];
  for (const input of Object.values(config.inputs)) {
    problems.push(...(await checkInput(db, await inputSourceOf(input, Object.keys(input.fields)))));
  }
  throwProblems(problems);
}

/** Follows what the user names to all that the people are known by; changes nothing. */
export async function planErasure(
  { config, db }: Pick<EraseServices, "config" | "db">,
  named: KnownBy,
): Promise<ErasurePlan> {
  const inputs: InputSource[] = [];
  for (const input of Object.values(config.inputs)) {
    inputs.push(await inputSourceOf(input, Object.keys(input.fields)));
  }
  const found = await findPeople(db, named, inputs);
  return { found, rows: await countPeople(db, found.people) };
}

/**
 * Erases people: notes them first, which every later load respects, then loads what waits on disk without them, and then
 * removes their rows. What a crash interrupts goes on with the next `erase` or `run`.
 *
 * `leave` has the service remove them from its segments: before anything else, since nobody knows in which ones they are once
 * their rows are gone, and again when they are noted, since until then a push could put them back.
 */
export async function carryOutErasure(
  services: EraseServices,
  found: FoundPeople,
  leave: (() => Promise<LeftSegments>) | null = null,
): Promise<ErasureResult> {
  const { db, log } = services;
  const left = leave && (await leave());
  const erasureId = randomUUID();
  await noteErasure(db, erasureId, found);
  crashPoint("after_erasure_noted");
  log.info({ erasure_id: erasureId }, "erasure_noted");
  const leftAgain = leave && (await settled(leave()));
  const cleared = await settled(clearSpool(services));
  const rows = await removeErased(db, erasureId);
  crashPoint("after_erasure");
  log.info({ erasure_id: erasureId, rows: sumOf(rows) }, "erased");
  // The tables are clean also where the disk is not.
  if (cleared.status === "rejected") throw cleared.reason;
  if (leftAgain?.status === "rejected") throw leftAgain.reason;
  return { erasureId, rows, spool: cleared.value, left: left && leftAgain && sumLeft(left, leftAgain.value) };
}

/** Goes on with erasures that were noted and did not end; returns how many. */
export async function finishErasures({ db, log }: Pick<EraseServices, "db" | "log">): Promise<number> {
  const open = await readOpenErasures(db);
  for (const id of open) {
    const rows = await removeErased(db, id);
    log.info({ erasure_id: id, rows: sumOf(rows) }, "erasure_finished");
  }
  return open.length;
}

function sumLeft(first: LeftSegments, again: LeftSegments): LeftSegments {
  return { segments: Math.max(first.segments, again.segments), removed: first.removed + again.removed };
}

async function settled<Result>(work: Promise<Result>): Promise<PromiseSettledResult<Result>> {
  const [outcome] = await Promise.allSettled([work]);
  return outcome;
}

/** Rows of all tables. */
export function sumOf(rows: RowsByTable): number {
  return Object.values(rows).reduce((sum, count) => sum + count, 0);
}
