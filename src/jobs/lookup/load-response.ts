import PQueue from "p-queue";
import { codeOf, StopJobError, StopRunError } from "../../errors.ts";
import { statedSize } from "../../extract/answer-body.ts";
import { memoryFor } from "../../extract/batches.ts";
import { type Lease, type Memory, releaseLease, resizeLease, takeMemory } from "../../extract/memory.ts";
import { LargeAnswerError } from "../../extract/take-answer.ts";
import { countText } from "../../figures.ts";
import { type Body, isFilePart } from "../../body.ts";
import type { LookupAnswer, LookupReject } from "../../load/lookups/lookup.ts";
import { commitLookup, type CommitResult, readAnswered } from "../../load/lookups/commit.ts";
import { isValueRefused } from "../../load/write/commit.ts";
import { isRepeatedResponse } from "../../load/ledger/ledger.ts";
import type { Spool } from "../../spool/spool.ts";
import type { SpooledCall } from "../../spool/files.ts";
import { stopReason } from "../retry-while-down.ts";
import type { JobContext } from "../job.ts";
import {
  type AnswerHeader,
  type AnswerPart,
  type AnswerRows,
  freeBody,
  MAX_TRIES,
  noRows,
  type Place,
  readHeader,
  readLarge,
  rowsOf,
  unloadable,
} from "./response-rows.ts";

type LoaderTask = Pick<JobContext, "config" | "db" | "log" | "progress" | "http" | "signal" | "run">;

export interface Loader extends LoaderTask {
  readonly spool: Spool;
  readonly memory: Memory;
  /** True if an earlier process received the answers. */
  readonly areOfEarlierProcess: boolean;
  readonly commits: PQueue;
}

export interface Recorded {
  readonly answers: Pick<LookupAnswer, "record" | "outcome">[];
  readonly rejects: Pick<LookupReject, "record">[];
}

export interface LoadableAnswer extends AnswerRows {
  readonly place: Place;
  /** Memory of its rows until the commit. */
  readonly lease: Lease;
}

interface ReceivedAnswer {
  readonly header: AnswerHeader;
  readonly body: Body;
  readonly lease: Lease;
  /** Expected memory for reading it; infinite for one to be in memory alone. */
  readonly bytes: number;
}

const PARALLEL_COMMITS = 3;

export function createLoader(task: LoaderTask, spool: Spool, areOfEarlierProcess: boolean): Loader {
  const commits = new PQueue({ concurrency: PARALLEL_COMMITS });
  return { ...task, memory: task.http.memory, commits, spool, areOfEarlierProcess };
}

/**
 * Loads answers that earlier runs of a job received but did not commit, under the IDs and parameters of those runs.
 * Returns when all are committed or quarantined.
 */
export async function loadSpooled(task: LoaderTask, spool: Spool): Promise<void> {
  const { log, progress, signal, run } = task;
  const files = await spool.leftovers();
  if (files.length === 0) return;
  progress.note(run.job, `Loading ${countText(files.length, "answer")} received by earlier runs.`);
  const loader = createLoader(task, spool, true);
  const commits: Promise<Recorded>[] = [];
  let hasFailed = false;
  for (const file of files) {
    if (hasFailed || signal.aborted) break;
    const answer = await readSpooled(loader, file);
    if (answer === null) continue;
    const commit = commitAnswer(loader, answer);
    commit.catch(() => {
      hasFailed = true;
    });
    commits.push(commit);
  }
  const ended = await Promise.allSettled(commits);
  const records = ended.reduce(
    (sum, end) => sum + (end.status === "fulfilled" ? end.value.answers.length : 0),
    0,
  );
  log.info({ job: run.job, calls: files.length, loaded_records: records }, "spooled_answers_loaded");
  for (const end of ended) if (end.status === "rejected") throw end.reason;
  if (signal.aborted) throw stopReason(signal);
}

/**
 * Reads an answer from its file when enough memory is free. Null if the file is gone or damaged.
 * @param isLarge true to read it result by result, alone in memory; always so if an earlier load of it failed
 */
async function readSpooled(
  loader: Loader,
  file: SpooledCall,
  isLarge = file.tries > 0,
): Promise<LoadableAnswer | null> {
  for (let bytes = isLarge ? Number.POSITIVE_INFINITY : file.bytes; ; ) {
    const lease = await takeMemory(loader.memory, bytes);
    let content: Pick<ReceivedAnswer, "header" | "body"> | null = null;
    try {
      content = await readFile(loader, file);
    } finally {
      if (content === null) releaseLease(lease);
    }
    if (content === null) return null;
    bytes = isLarge ? Number.POSITIVE_INFINITY : memoryOf(content);
    if (resizeLease(lease, bytes)) return await readAnswer(loader, file, { ...content, lease, bytes });
    // Waits without holding anything, so that answers can't block each other.
    freeBody(content.body);
    releaseLease(lease);
  }
}

/** Reads an answer that was just written to its file, when enough memory is free. Frees the body. */
export async function readReceived(
  loader: Loader,
  file: SpooledCall,
  received: Omit<ReceivedAnswer, "bytes">,
): Promise<LoadableAnswer> {
  const { body, lease } = received;
  const bytes = memoryOf(received);
  // A body in a file was moved to the answer's own one.
  if (!isFilePart(body) && resizeLease(lease, bytes))
    return required(loader, await readAnswer(loader, file, { ...received, bytes }));
  freeBody(body);
  releaseLease(lease);
  return required(loader, await readSpooled(loader, file));
}

/** Reads an answer that could not be written to disk, alone. */
export async function readUnspooled(
  loader: Loader,
  { header, body, lease: held }: Omit<ReceivedAnswer, "bytes">,
): Promise<LoadableAnswer> {
  releaseLease(held);
  const lease = await takeMemory(loader.memory, Number.POSITIVE_INFINITY);
  const place: Place = { file: null };
  try {
    const rows = await readLarge({ spool: loader.spool, header, body, place });
    return { ...(await withoutRepeated(loader, rows)), place, lease };
  } catch (error) {
    releaseLease(lease);
    throw error;
  }
}

/** Reads a file's header and body; null if the file is gone or damaged. */
async function readFile(
  { run, spool, log }: Loader,
  file: SpooledCall,
): Promise<Pick<ReceivedAnswer, "header" | "body"> | null> {
  const content = await spool.read(file);
  if (content.kind === "gone") return null;
  if (content.kind === "damaged") {
    const { reason } = content;
    const movedTo = await spool.quarantine(file);
    log.warn({ job: run.job, call_id: file.callId, reason, moved_to: movedTo }, "spooled_answer_damaged");
    return null;
  }
  const header = content.kind === "whole" ? readHeader(content.header) : null;
  if (content.kind === "whole" && header) return { header, body: content.body };
  throw new StopJobError(
    "spool_unknown_form",
    `Another version of person-etl wrote the responses in ${spool.folder}. Run ${run.job} with that version to load ` +
      "them; this version would send their records again.",
  );
}

/** Memory for reading an answer; infinite for one to be in memory alone. */
function memoryOf({ header, body }: Pick<ReceivedAnswer, "header" | "body">): number {
  if (isFilePart(body)) return Number.POSITIVE_INFINITY;
  return memoryFor(header.records.length, body.length, statedSize(body, header.call.contentEncoding));
}

/** Makes the rows of an answer; if that fails, or needs too much memory, reads it again alone. */
async function readAnswer(
  loader: Loader,
  file: SpooledCall,
  { header, body, lease, bytes }: ReceivedAnswer,
): Promise<LoadableAnswer | null> {
  const { spool, memory } = loader;
  const place: { file: SpooledCall } = { file };
  try {
    if (file.tries >= MAX_TRIES) {
      // A part of it may have been loaded.
      const contents = header.records.map(({ content }) => content);
      const answered = await readAnswered(loader.db, header.spec, header.call.callId, contents);
      return { ...unloadable(header, body, answered), place, lease };
    }
    place.file = await spool.beginTry(file);
  } catch (error) {
    releaseLease(lease);
    throw error;
  }
  let rows: AnswerRows;
  try {
    if (bytes === Number.POSITIVE_INFINITY) rows = await readLarge({ spool, header, body, place });
    else {
      const { rowBytes, ...read } = await rowsOf(header, body, bytes < memory.maxBytes ? bytes : undefined);
      // A decompression that failed may still be reading the body.
      if (read.summary.kind === "answer") freeBody(body);
      const kept = memoryFor(header.records.length, rowBytes, 0);
      resizeLease(lease, Math.min(kept, lease.bytes));
      rows = read;
    }
  } catch (error) {
    releaseLease(lease);
    if (error instanceof StopRunError) throw error;
    if (error instanceof LargeAnswerError)
      return await readSpooled(loader, await spool.takeTryBack(place.file), true);
    const { callId: call_id, tries } = place.file;
    const reason = codeOf(error) ?? (error instanceof Error ? error.name : "unknown");
    loader.log.warn({ job: loader.run.job, call_id, tries, reason }, "spooled_answer_failed");
    return await readSpooled(loader, place.file);
  }
  try {
    return { ...(await withoutRepeated(loader, rows)), place, lease };
  } catch (error) {
    // The warehouse is away: not the fault of the answer, which the next run loads.
    releaseLease(lease);
    await spool.takeTryBack(place.file);
    throw error;
  }
}

/** Drops the results of a response that an earlier run has received already. Responses of earlier runs on disk are kept: each was written once. */
async function withoutRepeated(
  { db, run, areOfEarlierProcess }: Loader,
  rows: AnswerRows,
): Promise<AnswerRows> {
  if (areOfEarlierProcess || !(await isRepeatedResponse(db, run, rows.attempt))) return rows;
  if (Array.isArray(rows.parts)) for (const { store } of rows.parts as readonly AnswerPart[]) store.free();
  return await noRows(rows.header);
}

/** Returns an answer that must be in the spool. */
function required({ spool }: Loader, answer: LoadableAnswer | null): LoadableAnswer {
  if (answer) return answer;
  throw new StopJobError(
    "spool_damaged",
    `A received response can't be read back from ${spool.folder}. Check the disk, and make sure that no other program changes ` +
      "files there. Its records remain due.",
  );
}

/** Commits an answer, a large one part by part; then removes its file and releases its memory. */
export async function commitAnswer(loader: Loader, answer: LoadableAnswer): Promise<Recorded> {
  const { spool, commits } = loader;
  const { parts, place, isUnloadable, lease } = answer;
  const recorded: Recorded = { answers: [], rejects: [] };
  try {
    for await (const part of parts) {
      try {
        const othersLoad = recorded.answers.length > 0;
        const { notLoadable } = await commits.add(() => commitPart(loader, answer, part, othersLoad));
        addOutcomes(recorded, part, new Set(notLoadable));
      } finally {
        part.store.free();
      }
    }
    if (place.file) await (isUnloadable ? quarantine(loader, place.file) : spool.remove(place.file));
    return recorded;
  } catch (error) {
    if (place.file === null || isUnloadable) throw error;
    // A refused value may be its only record's fault: after three tries, the answer is quarantined.
    if (!isValueRefused(error)) await spool.takeTryBack(place.file);
    throw error;
  } finally {
    releaseLease(lease);
  }
}

/** Commits a part in one transaction; the last one together with the ledger. */
async function commitPart(
  loader: Loader,
  { header, attempt }: LoadableAnswer,
  { answers, rejects, drift, isLast }: AnswerPart,
  othersLoad: boolean,
): Promise<CommitResult> {
  const { config, db, run, areOfEarlierProcess } = loader;
  const sentBy = areOfEarlierProcess ? { sentBy: header.run } : {};
  const ledger = isLast ? [attempt] : [];
  const own = { spec: header.spec, ledger, answers, rejects, drift, othersLoad };
  const commit = { run, ...sentBy, ...own, keepsPeople: config.history.people };
  return await commitLookup(db, commit);
}

/** Records the outcomes of a part; answers that the warehouse refused are rejects. */
function addOutcomes(recorded: Recorded, part: AnswerPart, refused: ReadonlySet<string>): void {
  for (const { record, outcome } of part.answers) {
    if (refused.has(record.recordId)) recorded.rejects.push({ record });
    else recorded.answers.push({ record, outcome });
  }
  for (const { record } of part.rejects) recorded.rejects.push({ record });
}

async function quarantine({ run, spool, log }: Loader, file: SpooledCall): Promise<void> {
  const movedTo = await spool.quarantine(file);
  log.error({ job: run.job, call_id: file.callId, moved_to: movedTo }, "answer_quarantined");
}
