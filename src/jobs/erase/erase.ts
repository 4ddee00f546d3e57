import { randomUUID } from "node:crypto";
import { crashPoint } from "../../crash-point.ts";
import { FixConfigurationError, type Problem } from "../../errors.ts";
import { BATCH_PIDS, changeCall } from "../../extract/pages.ts";
import { findPeople } from "../../load/erasure/find.ts";
import { countPeople, removeErased, segmentsOf } from "../../load/erasure/remove.ts";
import {
  completeErasures,
  readErasedAt,
  readOpenErasures,
  readUnusedPlaces,
  removeEmptyPlaces,
  requestErasure,
  type Waiting,
} from "../../load/erasure/requests.ts";
import type { FoundPeople, RowsByTable } from "../../load/erasure/subjects.ts";
import { readSegments } from "../../load/feeds/members.ts";
import type { Identifiers, RowKey } from "../../load/inputs/input.ts";
import { checkInput } from "../../load/inputs/read.ts";
import { castSourceKey, findSourceKey } from "../../load/lookups/explain-row.ts";
import { segmentEndpoints } from "../../schemas/segments.ts";
import { emptyFolder, readDiskId, type SpoolOwner, surveySpool } from "../../spool/files.ts";
import { callRecorded } from "../feed.ts";
import { takeOverExpired } from "../hold-job.ts";
import { deathsJobOf } from "../segments/death-signals.ts";
import { pushJobOf } from "../segments/push-settings.ts";
import { membersJobOf } from "../segments/segment-members.ts";
import { spoolKind, spoolNameOf, spoolRoot } from "../lookup/job-spool.ts";
import { allInputs, inputSourceOf, throwProblems } from "../sources.ts";
import type { JobServices } from "../services.ts";

export type EraseServices = Pick<JobServices, "config" | "db" | "clock" | "log" | "signal" | "progress">;

export interface ErasurePlan {
  readonly found: FoundPeople;
  readonly rows: RowsByTable;
  /** True if a table or an input has a row of these people. */
  readonly isKnown: boolean;
  /** Instant by which everyone named was erased before; null if someone wasn't. */
  readonly erasedAt: string | null;
  /** Number of segments of which they are or may be members, as far as the warehouse knows. */
  readonly memberOf: number;
}

/** Checks that every input can be searched for people; throws all problems at once. */
export async function verifySearch({ config, db }: Pick<EraseServices, "config" | "db">): Promise<void> {
  const problems: Problem[] = [];
  for (const source of await allInputs(config)) problems.push(...(await checkInput(db, source)));
  throwProblems(problems);
}

/** Finds the subjects of an erasure of the named people and counts their rows; changes nothing. */
export async function planErasure(
  { config, db }: Pick<EraseServices, "config" | "db">,
  named: Identifiers,
): Promise<ErasurePlan> {
  const rows = await Promise.all(named.rows.map((row) => storedRow({ config, db }, row)));
  const found = await findPeople(db, { ...named, rows }, await allInputs(config));
  const counts = await countPeople(db, found.people);
  return {
    found,
    rows: counts,
    isKnown: found.isKnown || sumOf(counts) > 0,
    erasedAt: await readErasedAt(db, { ...named, rows }),
    memberOf: (await segmentsOf(db, found.people.pids)).length,
  };
}

/** Returns a row with its key as stored, whether it is still in its input or not: `007` is 7 in a column of integers. */
async function storedRow(
  { config, db }: Pick<EraseServices, "config" | "db">,
  { source, sourceKey }: RowKey,
): Promise<RowKey> {
  const input = config.inputs[source];
  if (!input) return { source, sourceKey };
  // The key of several columns is a JSON list of texts.
  const key = input.key.length > 1 ? (JSON.parse(sourceKey) as readonly string[]) : [sourceKey];
  const unfiltered = { ...(await inputSourceOf(input, [])), where: null };
  try {
    const given = { key, sourceKey };
    // The row's own text comes first: a type may take several texts as equal, and keep each as it is.
    const found = await findSourceKey(db, unfiltered, given);
    return { source, sourceKey: found ?? (await castSourceKey(db, unfiltered, given)) };
  } catch (error) {
    // The text is no value of the column's type; rows stored before the type changed may have it.
    if (error instanceof FixConfigurationError) return { source, sourceKey };
    throw error;
  }
}

/**
 * Requests an erasure, which later selections, reservations and loads respect, and removes the rows. Runs in progress may
 * store some rows again; {@link finishErasures} removes those too. Takes no job lock. Returns all PIDs, those found since the plan included.
 */
export async function erasePeople(
  { db, log }: Pick<EraseServices, "db" | "log">,
  found: FoundPeople,
): Promise<{ readonly erasureId: string; readonly rows: RowsByTable; readonly pids: readonly string[] }> {
  const { erasureId, pids } = await requestErasure(db, found);
  crashPoint("after_erasure_noted");
  log.info({ erasure_id: erasureId }, "erasure_requested");
  const rows = await removeErased(db, erasureId);
  crashPoint("after_erasure");
  log.info({ erasure_id: erasureId, rows: sumOf(rows) }, "erased");
  return { erasureId, rows, pids };
}

/** Removes the rows of open erasures again and completes those that are no longer pending. */
export async function finishErasures(services: EraseServices): Promise<void> {
  const { db, log } = services;
  const rows = new Map<string, number>();
  for (const id of await readOpenErasures(db)) rows.set(id, sumOf(await removeErased(db, id)));
  for (const [id, waiting] of await closeErasures(services, [...rows.keys()])) {
    const fields = { erasure_id: id, rows: rows.get(id) };
    if (waiting.length === 0) log.info(fields, "erasure_completed");
    else log.info({ ...fields, waiting_for: waiting }, "erasure_pending");
  }
}

/** Like {@link finishErasures}, but logs failures instead of throwing. */
export async function finishErasuresQuietly(services: EraseServices): Promise<void> {
  try {
    await finishErasures(services);
  } catch (error) {
    services.log.warn({ error }, "erasures_not_finished");
  }
}

/**
 * Completes the erasures that aren't pending; returns the reasons of each. Takes over runs whose lock has expired, so that an erasure
 * doesn't wait for them forever.
 */
export async function closeErasures(
  services: EraseServices,
  ids: readonly string[],
): Promise<ReadonlyMap<string, readonly Waiting[]>> {
  const { db } = services;
  const settled = new Map<string, readonly Waiting[]>();
  if (ids.length === 0) return settled;
  if (await takeOverExpired(services)) for (const id of ids) await removeErased(db, id);
  const here = await readDiskId(services.config.dataDir);
  for (let left = ids; left.length > 0; left = left.filter((id) => !settled.has(id))) {
    // In each pass: a run that ended since the last one may have left some.
    const answers = await receivedAnswers(services, here);
    const reasons =
      answers.length > 0 ? new Map(left.map((id) => [id, answers])) : await completeErasures(db, left, here);
    for (const [id, waiting] of reasons) {
      if (waiting === null) await removeErased(db, id);
      else settled.set(id, waiting);
    }
  }
  return settled;
}

/** Received answers on this disk that are not loaded yet. Empties the quarantine, whose files are never loaded. */
async function receivedAnswers(
  { config, db }: EraseServices,
  disk: string | null,
): Promise<readonly Waiting[]> {
  const warehouse = await spoolNameOf(db);
  // Read before the files: a run that ends now may leave some.
  const places = disk === null ? [] : await readUnusedPlaces(db, disk);
  const { contents, quarantined } = await surveySpool(spoolRoot(config));
  for (const one of quarantined) {
    if (spoolKind(one.warehouse, warehouse) === "own") await emptyFolder(one.folder);
  }
  const ours = contents.filter((one) => spoolKind(one.warehouse, warehouse) === "own");
  const isEmpty = (place: Pick<SpoolOwner, "job" | "shard">) =>
    !ours.some(({ job, shard }) => job === place.job && shard === place.shard);
  if (disk !== null) await removeEmptyPlaces(db, disk, places.filter(isEmpty));
  return [...new Set(ours.map(({ job }) => job))].map((name) => ({ kind: "received_answers", name }));
}

export function sumOf(rows: RowsByTable): number {
  return Object.values(rows).reduce((sum, count) => sum + count, 0);
}

type LeaveServices = Pick<
  JobServices,
  "config" | "db" | "http" | "limiter" | "clock" | "log" | "signal" | "random"
>;

export interface LeftSegments {
  /** Number of segments with a call. */
  readonly segments: number;
  readonly removed: number;
  /** Segments that the key may not change. */
  readonly refused: readonly string[];
}

/**
 * Removes people from all known segments of the service: a repeated erasure doesn't know their own anymore. Free and idempotent: an
 * erasure does this before its request, and at its end, in case a push added someone in between. A deleted segment counts as left;
 * one that the key may not change doesn't keep the rows from being removed.
 */
export async function leaveSegments(services: LeaveServices, pids: readonly string[]): Promise<LeftSegments> {
  const { log } = services;
  const segments = pids.length === 0 ? [] : await knownSegments(services, pids);
  const caller = { runId: randomUUID(), job: "erase" };
  let removed = 0;
  const refused: string[] = [];
  for (const segmentId of segments) {
    let isRefused = false;
    for (let at = 0; at < pids.length; at += BATCH_PIDS) {
      const call = changeCall(segmentEndpoints.remove, segmentId, pids.slice(at, at + BATCH_PIDS));
      const reply = await callRecorded(services, caller, { ...call, expects: [403, 404] });
      if (reply.kind === "answer") removed += reply.value.changed ?? 0;
      else isRefused ||= reply.status === 403;
    }
    if (isRefused) {
      refused.push(segmentId);
      log.warn({ segment_id: segmentId }, "segment_refused");
      continue;
    }
    log.info({ segment_id: segmentId }, "segment_left");
  }
  return { segments: segments.length, removed, refused };
}

/** IDs of the segments in the warehouse and in the configuration. */
async function knownSegments(
  { config, db }: Pick<EraseServices, "config" | "db">,
  pids: readonly string[],
): Promise<readonly string[]> {
  const configured = config.jobs.flatMap((job) => [
    pushJobOf(job)?.segmentId ?? [],
    (membersJobOf(job) ?? deathsJobOf(job))?.segments.flatMap((one) => (one.kind === "id" ? one.id : [])) ??
      [],
  ]);
  const stored = (await readSegments(db)).map((one) => one.segment_id);
  return [...new Set([...configured.flat(), ...stored, ...(await segmentsOf(db, pids))])].toSorted();
}
