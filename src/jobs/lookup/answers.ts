import PQueue from "p-queue";
import { codeOf, StopJobError } from "../../errors.ts";
import { statedSize } from "../../extract/answer-body.ts";
import { type Lease, type Memory, releaseLease, resizeLease, takeMemory } from "../../extract/memory.ts";
import { type ReadContext, TooLargeError } from "../../extract/read-answer.ts";
import {
  type AnsweredCall,
  type ReadSummary,
  takeAnswer,
  UnderstatedSizeError,
  unreadAttempt,
} from "../../extract/take-answer.ts";
import { countText } from "../../figures.ts";
import { freeBytes } from "../../free-bytes.ts";
import type { LookupAnswer, LookupReject } from "../../load/lookups/answer.ts";
import { commitLookup, type CommitResult } from "../../load/lookups/commit.ts";
import { encodePerson } from "../../load/lookups/person-groups.ts";
import { createRowStore, type RowStore } from "../../load/lookups/row-store.ts";
import { isValueRefused } from "../../load/db/refusal.ts";
import { isRepeatedResponse } from "../../load/ledger/ledger.ts";
import type { LookupRecord } from "../../load/lookups/lookup.ts";
import type { RunRef } from "../../load/runs/run-ref.ts";
import type { Attempt } from "../../schemas/attempt.ts";
import type { Drift } from "../../schemas/drift.ts";
import type { JsonObject } from "../../schemas/flatten.ts";
import type { Spool, SpooledCall } from "../../spool/spool.ts";
import type { Outage } from "../outage.ts";
import type { JobServices } from "../services.ts";
import { stopReason } from "../stop-reason.ts";
import { type AnswerHeader, readHeader } from "./answer-header.ts";
import { lookupAsked } from "./lookup-types.ts";

/** Loads spooled answers into the warehouse. */
export interface Loader extends Pick<JobServices, "db" | "log" | "progress"> {
  /** Run that loads. */
  readonly run: RunRef;
  readonly spool: Spool;
  readonly outage: Outage;
  readonly memory: Memory;
  /** True if an earlier process received the answers. */
  readonly areLeftOver: boolean;
  readonly commits: PQueue;
}

/** Outcome of several records. */
export interface Recorded {
  readonly answers: readonly Pick<LookupAnswer, "record" | "outcome">[];
  readonly rejects: readonly Pick<LookupReject, "record">[];
}

/** Answer as rows, to be committed. */
export interface LoadableAnswer {
  readonly header: AnswerHeader;
  readonly summary: ReadSummary;
  readonly attempt: Attempt;
  readonly answers: readonly LookupAnswer[];
  readonly rejects: readonly LookupReject[];
  readonly drift: readonly Drift[];
  /** True if it failed to load too often: all its records are rejected. */
  readonly isUnloadable: boolean;
  /** Its file; null if it could not be written to disk. */
  readonly file: SpooledCall | null;
  /** Memory of its rows until the commit. */
  readonly lease: Lease;
  readonly store: RowStore;
}

/** Answer in memory, not parsed yet. */
interface ReceivedAnswer {
  readonly header: AnswerHeader;
  readonly body: Buffer;
  readonly lease: Lease;
  /** Expected memory for reading it; infinite for one to be in memory alone. */
  readonly bytes: number;
}

/** Maximum concurrent commits. */
const PARALLEL_COMMITS = 3;
/** Memory of a record and its outcome, besides the text of the answer. */
const RECORD_BYTES = 4 * 1024;
/** Rows of one answer: short elements become rows of many times their size. */
const MAX_ROW_BYTES = 32 * 1024 * 1024;
/** Failed loads after which an answer is quarantined. */
const MAX_TRIES = 3;

/** Creates a loader. */
export function createLoader(
  { db, log, progress, http }: Pick<JobServices, "db" | "log" | "progress" | "http">,
  options: Pick<Loader, "run" | "spool" | "outage" | "areLeftOver">,
): Loader {
  const commits = new PQueue({ concurrency: PARALLEL_COMMITS });
  return { db, log, progress, memory: http.memory, commits, ...options };
}

/**
 * Loads answers that earlier runs of a job received but did not commit, under the IDs and parameters of those runs.
 * Returns when all are committed or quarantined.
 */
export async function loadLeftovers(
  services: Pick<JobServices, "db" | "log" | "progress" | "http" | "signal">,
  options: Pick<Loader, "run" | "spool" | "outage">,
): Promise<void> {
  const { log, progress, signal } = services;
  const { run, spool } = options;
  const files = await spool.leftovers();
  if (files.length === 0) return;
  progress.note(run.job, `Loading ${countText(files.length, "answer")} received by earlier runs.`);
  const loader = createLoader(services, { ...options, areLeftOver: true });
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

/** Reads an answer from its file when enough memory is free. Null if the file is gone or damaged. */
async function readSpooled(loader: Loader, file: SpooledCall): Promise<LoadableAnswer | null> {
  for (let bytes = file.tries > 0 ? Number.POSITIVE_INFINITY : file.bytes; ; ) {
    const lease = await takeMemory(loader.memory, bytes);
    let content: Pick<ReceivedAnswer, "header" | "body"> | null = null;
    try {
      content = await readFile(loader, file);
    } finally {
      if (content === null) releaseLease(lease);
    }
    if (content === null) return null;
    bytes = memoryOf(content, file);
    if (resizeLease(lease, bytes)) return await readAnswer(loader, file, { ...content, lease, bytes });
    // Waits without holding anything, so that answers can't block each other.
    freeBytes(content.body);
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
  const bytes = memoryOf(received, file);
  if (resizeLease(lease, bytes)) return found(loader, await readAnswer(loader, file, { ...received, bytes }));
  freeBytes(body);
  releaseLease(lease);
  return found(loader, await readSpooled(loader, file));
}

/** Reads an answer that could not be written to disk, alone. */
export async function readUnspooled(
  loader: Loader,
  { header, body, lease: held }: Omit<ReceivedAnswer, "bytes">,
): Promise<LoadableAnswer> {
  releaseLease(held);
  const lease = await takeMemory(loader.memory, Number.POSITIVE_INFINITY);
  const store = createRowStore();
  try {
    const { rowBytes: _, ...rows } = await rowsOf(store, header, body);
    return { ...(await ifNew(loader, store, rows)), file: null, lease, store };
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
    `Another version of person-etl wrote the answers in ${spool.folder}. Run ${run.job} with that version to load ` +
      "them; this one would send their records again.",
  );
}

/** Memory for reading an answer; one whose load failed before is in memory alone. */
function memoryOf({ header, body }: Pick<ReceivedAnswer, "header" | "body">, file: SpooledCall): number {
  if (file.tries > 0) return Number.POSITIVE_INFINITY;
  const plainBytes = statedSize(body, header.call.contentEncoding);
  return body.length + plainBytes + RECORD_BYTES * header.records.length;
}

/** Makes the rows of an answer; if that fails, reads it again alone. */
async function readAnswer(
  loader: Loader,
  file: SpooledCall,
  { header, body, lease, bytes }: ReceivedAnswer,
): Promise<LoadableAnswer | null> {
  const { spool, memory } = loader;
  const store = createRowStore();
  let tried = file;
  try {
    if (file.tries >= MAX_TRIES) return { ...unloadable(header, body), file, lease, store };
    tried = await spool.beginTry(file);
  } catch (error) {
    releaseLease(lease);
    throw error;
  }
  let rows: AnswerRows;
  try {
    const { rowBytes, ...read } = await rowsOf(
      store,
      header,
      body,
      bytes < memory.maxBytes ? bytes : undefined,
    );
    // A decompression that failed may still be reading the body.
    if (read.summary.kind === "answer") freeBytes(body);
    const kept = rowBytes + RECORD_BYTES * header.records.length;
    if (Number.isFinite(bytes)) resizeLease(lease, Math.min(kept, lease.bytes));
    rows = read;
  } catch (error) {
    store.free();
    releaseLease(lease);
    logFailure(loader, tried, error);
    return await readSpooled(loader, tried);
  }
  try {
    return { ...(await ifNew(loader, store, rows)), file: tried, lease, store };
  } catch (error) {
    // The warehouse is away: not the fault of the answer, which the next run loads.
    store.free();
    releaseLease(lease);
    await spool.takeTryBack(tried);
    throw error;
  }
}

/** Replaces a response that another call of an earlier run received by no results; that of an earlier run is in its files only once. */
async function ifNew(
  { db, run, outage, areLeftOver }: Loader,
  store: Pick<RowStore, "add">,
  rows: AnswerRows,
): Promise<AnswerRows> {
  if (areLeftOver || !(await outage.outlast(() => isRepeatedResponse(db, run, rows.attempt)))) return rows;
  const { header } = rows;
  const plain = { ...header, call: { ...header.call, contentEncoding: null } };
  const { rowBytes: _, ...none } = await rowsOf(store, plain, Buffer.from('{"results":[]}'));
  return { ...none, header };
}

function answeredCall({ call, records, doubts }: AnswerHeader, body: Buffer): AnsweredCall<LookupRecord> {
  return { ...call, items: records, possiblyBilledBefore: doubts, body };
}

/** Rows of an answer. */
type AnswerRows = Omit<LoadableAnswer, "file" | "lease" | "store">;

/**
 * Parses a spooled answer and makes the rows of each record's result.
 * @param maxBytes memory that was taken for it; throws if the answer takes more. Undefined if it is alone.
 */
async function rowsOf(
  store: Pick<RowStore, "add">,
  header: AnswerHeader,
  body: Buffer,
  maxBytes?: number,
): Promise<AnswerRows & { readonly rowBytes: number }> {
  const { call, records, spec, parameters } = header;
  const { endpoint, read } = lookupAsked(spec.type, parameters);
  let rowBytes = 0;
  const toRows = (result: JsonObject, { drift }: ReadContext) => {
    const part = read(result, drift);
    const person = part.person && encodePerson(part.person, store);
    rowBytes += person?.bytes ?? 0;
    if (rowBytes > MAX_ROW_BYTES) throw new TooLargeError("The answer's rows are too large.");
    if (rowBytes > 2 * (maxBytes ?? MAX_ROW_BYTES)) {
      throw new UnderstatedSizeError("The answer's rows are larger than its size suggests.");
    }
    return { ...part, person };
  };
  const taken = await takeAnswer(endpoint, answeredCall(header, body), toRows, maxBytes);
  const { summary, attempt, results, apiRequestId, answeredAt, drift } = taken;
  const answers: LookupAnswer[] = [];
  const rejects: LookupReject[] = [];
  for (const [i, record] of records.entries()) {
    const rows = results[i];
    if (!rows) continue;
    const { outcome, ...part } = rows;
    if (outcome === "no_pid") {
      const message = `${endpoint.name}: the service reports a match without a PID.`;
      rejects.push({ record, stage: "answer", code: "no_pid", message, details: null, apiRequestId });
    } else answers.push({ record, outcome, ...part, apiRequestId, answeredAt, callId: call.callId });
  }
  return { header, summary, attempt, answers, rejects, drift, isUnloadable: false, rowBytes };
}

/** Rejects all records of an answer that can't be loaded. */
function unloadable(header: AnswerHeader, body: Buffer): AnswerRows {
  const why = {
    stage: "load",
    code: "answer_unloadable",
    message: `The answer could not be loaded in ${MAX_TRIES} tries. It is kept in the spool's quarantine.`,
    details: null,
    apiRequestId: null,
  } as const;
  return {
    header,
    summary: { kind: "answer", missing: [], plainBytes: 0, apiRequestId: null },
    attempt: unreadAttempt(answeredCall(header, body)),
    answers: [],
    rejects: header.records.map((record) => ({ record, ...why })),
    drift: [],
    isUnloadable: true,
  };
}

/** Returns an answer that must be in the spool. */
function found({ spool }: Loader, answer: LoadableAnswer | null): LoadableAnswer {
  if (answer) return answer;
  throw new StopJobError(
    "spool_damaged",
    `A received answer can't be read back from ${spool.folder}. Check the disk, and make sure that no other program changes ` +
      "files there. Its records remain due.",
  );
}

function logFailure({ run, log }: Loader, { callId, tries }: SpooledCall, error: unknown): void {
  const reason = codeOf(error) ?? (error instanceof Error ? error.name : "unknown");
  log.warn({ job: run.job, call_id: callId, tries, reason }, "spooled_answer_failed");
}

/** Commits an answer in one transaction, then removes its file and releases its memory. */
export async function commitAnswer(loader: Loader, answer: LoadableAnswer): Promise<Recorded> {
  const { spool, commits } = loader;
  const { file, isUnloadable, store, lease } = answer;
  try {
    const { notLoadable } = await commits.add(() => commitRows(loader, answer));
    if (file) await (isUnloadable ? quarantine(loader, file) : spool.remove(file));
    return withRefused(answer, new Set(notLoadable));
  } catch (error) {
    if (file === null || isUnloadable) throw error;
    // A refused value may be its only record's fault: after three tries, the answer is quarantined.
    if (!isValueRefused(error)) await spool.takeTryBack(file);
    throw error;
  } finally {
    store.free();
    releaseLease(lease);
  }
}

async function commitRows(loader: Loader, answer: LoadableAnswer): Promise<CommitResult> {
  const { db, run, outage, areLeftOver } = loader;
  const { header, attempt, answers, rejects, drift } = answer;
  const sentBy = areLeftOver ? { sentBy: header.run } : {};
  const commit = { run, ...sentBy, spec: header.spec, ledger: [attempt], answers, rejects, drift };
  return await outage.outlast(() => commitLookup(db, commit));
}

/** Moves answers that the warehouse refused to the rejects. */
function withRefused({ answers, rejects }: Recorded, recordIds: ReadonlySet<string>): Recorded {
  const isRefused = ({ record }: { readonly record: LookupRecord }) => recordIds.has(record.recordId);
  return {
    answers: answers.filter((answer) => !isRefused(answer)),
    rejects: [...rejects, ...answers.filter(isRefused)],
  };
}

/** Quarantines the file of an answer that could not be loaded. */
async function quarantine({ run, spool, log }: Loader, file: SpooledCall): Promise<void> {
  const movedTo = await spool.quarantine(file);
  log.error({ job: run.job, call_id: file.callId, moved_to: movedTo }, "answer_quarantined");
}
