import PQueue from "p-queue";
import { codeOf, StopJobError } from "../../errors.ts";
import { freeBytes } from "../../free-bytes.ts";
import { statedSize } from "../../extract/answer-body.ts";
import { isDataFault } from "../../load/db/recovery.ts";
import { commitLookup, type CommitResult } from "../../load/lookups/commit.ts";
import { createRowStore, type RowStore } from "../../load/lookups/row-store.ts";
import type { Spool, SpooledCall } from "../../spool/spool.ts";
import type { Outage } from "../outage.ts";
import type { JobServices } from "../services.ts";
import { type AnswerHeader, readHeader } from "./answer-header.ts";
import { createByteBudget } from "./byte-budget.ts";
import { readCall, type ReadCall, rejectCall } from "./read-call.ts";
import { type Settled, withRefused } from "./tally.ts";
import type { RunRef } from "../../load/runs/run-ref.ts";

/** Services needed for loading. */
export type LoadServices = Pick<JobServices, "db" | "log" | "progress" | "signal">;

/** Options of a loader. */
export interface LoaderOptions {
  /** Run that loads. */
  readonly run: RunRef;
  readonly spool: Spool;
  readonly outage: Outage;
  /** True if an earlier process received the answers. */
  readonly areLeftOver: boolean;
}

/** Answer in memory, to be committed. Occupies memory until then. */
export interface LoadableCall extends ReadCall {
  /** Its file; null if it could not be written to disk. */
  readonly file: SpooledCall | null;
  readonly releaseMemory: () => void;
}

/** Loads spooled answers into the warehouse. */
export interface Loader {
  /** Reads an answer from its file when enough memory is available. Null if the file is gone or damaged. */
  read(file: SpooledCall): Promise<LoadableCall | null>;
  /** Reads an answer that was just written to its file, when enough memory is available. Frees the body. */
  readReceived(file: SpooledCall, header: AnswerHeader, body: Buffer): Promise<LoadableCall>;
  /** Reads an answer that could not be written to disk. */
  readUnspooled(header: AnswerHeader, body: Buffer): Promise<LoadableCall>;
  /** Commits an answer in one transaction, then removes its file. */
  commit(call: LoadableCall): Promise<Settled>;
}

/** An answer for whose rows memory is set aside. */
interface OpenedCall {
  readonly header: AnswerHeader;
  readonly body: Buffer;
  readonly size: number;
  readonly store: RowStore;
  readonly release: (kept?: number) => void;
}

/** Maximum concurrent commits. */
const PARALLEL_COMMITS = 3;
/** Maximum memory of all answers: their uncompressed text, then its rows, and the records. A larger answer is loaded alone. */
const MAX_BYTES_IN_MEMORY = 12 * 1024 * 1024;
/** Memory of a record and its outcome, besides the text of the answer. */
const RECORD_BYTES = 4 * 1024;
/** Failed loads after which an answer is quarantined. */
const MAX_TRIES = 3;

/** Opens a loader. */
export function openLoader({ db, log }: LoadServices, options: LoaderOptions): Loader {
  const { run, spool, outage } = options;
  const budget = createByteBudget(MAX_BYTES_IN_MEMORY);
  const commits = new PQueue({ concurrency: PARALLEL_COMMITS });
  // Of the answers that wait for memory, only the next one occupies some.
  const openings = new PQueue({ concurrency: 1 });

  /** Reads a file's header and body; null if the file is gone or damaged. */
  async function open(file: SpooledCall): Promise<{ header: AnswerHeader; body: Buffer } | null> {
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

  /** Waits for the memory of an answer's rows. */
  async function withMemory(file: SpooledCall, header: AnswerHeader, body: Buffer): Promise<OpenedCall> {
    // An answer whose load failed before is in memory alone.
    const stated = statedSize(body, header.call.contentEncoding) + RECORD_BYTES * header.records.length;
    const size = file.tries > 0 ? Number.POSITIVE_INFINITY : stated;
    const store = createRowStore();
    return { header, body, size, store, release: await budget.take(size) };
  }

  async function read(file: SpooledCall): Promise<LoadableCall | null> {
    const opened = await openings.add(async () => {
      const content = await open(file);
      return content && (await withMemory(file, content.header, content.body));
    });
    return opened && (await readOpened(file, opened));
  }

  async function readOpened(file: SpooledCall, opened: OpenedCall): Promise<LoadableCall | null> {
    const { header, body, size, store, release } = opened;
    const releaseMemory = () => {
      store.free();
      release();
    };
    if (file.tries >= MAX_TRIES) {
      const message = `The answer could not be loaded in ${MAX_TRIES} tries. It is kept in the spool's quarantine.`;
      return { ...rejectCall(header, body, message), file, releaseMemory };
    }
    let tried = file;
    try {
      tried = await spool.beginTry(file);
    } catch (error) {
      releaseMemory();
      throw error;
    }
    try {
      const maxBytes = size < MAX_BYTES_IN_MEMORY ? size : undefined;
      const call = await readCall(store, header, body, maxBytes);
      // A decompression that failed may still be reading the body.
      if (call.summary.kind === "answer") freeBytes(body);
      if (Number.isFinite(size)) release(call.rowBytes + RECORD_BYTES * header.records.length);
      return { ...call, file: tried, releaseMemory };
    } catch (error) {
      releaseMemory();
      logFailure(tried, error);
      return await read(tried);
    }
  }

  /** Returns an answer that must be in the spool. */
  function found(call: LoadableCall | null): LoadableCall {
    if (call) return call;
    throw new StopJobError(
      "spool_damaged",
      `A received answer can't be read back from ${spool.folder}. Check the disk, and make sure that no other program changes ` +
        "files there. Its records remain due.",
    );
  }

  function logFailure({ callId, tries }: SpooledCall, error: unknown): void {
    const reason = codeOf(error) ?? (error instanceof Error ? error.name : "unknown");
    log.warn({ job: run.job, call_id: callId, tries, reason }, "spooled_answer_failed");
  }

  async function commitRows(call: ReadCall): Promise<CommitResult> {
    const { header, attempt, answers, rejects, drift } = call;
    const commit = {
      run,
      ...(options.areLeftOver ? { sentBy: header.run } : {}),
      spec: header.spec,
      ledger: [attempt],
      answers,
      rejects,
      drift,
    };
    return await outage.outlast(() => commitLookup(db, commit));
  }

  /** Quarantines the file of an answer that could not be loaded. */
  async function quarantine(file: SpooledCall): Promise<void> {
    const movedTo = await spool.quarantine(file);
    log.error({ job: run.job, call_id: file.callId, moved_to: movedTo }, "answer_quarantined");
  }

  async function commit(call: LoadableCall): Promise<Settled> {
    const { file, answers, rejects, releaseMemory } = call;
    const isUnloadable = rejects.length > 0;
    try {
      const { notLoadable } = await commits.add(() => commitRows(call));
      if (file) await (isUnloadable ? quarantine(file) : spool.remove(file));
      return withRefused({ answers, rejects }, new Set(notLoadable));
    } catch (error) {
      if (file === null || isUnloadable) throw error;
      if (!isDataFault(error)) {
        await spool.takeTryBack(file);
        throw error;
      }
      logFailure(file, error);
    } finally {
      releaseMemory();
    }
    return await commit(found(await read(file)));
  }

  return {
    read,
    readReceived: async (file, header, body) =>
      found(await readOpened(file, await withMemory(file, header, body))),
    async readUnspooled(header, body) {
      const releaseMemory = await budget.take(Number.POSITIVE_INFINITY);
      try {
        return { ...(await readCall(createRowStore(), header, body)), file: null, releaseMemory };
      } catch (error) {
        releaseMemory();
        throw error;
      }
    },
    commit,
  };
}
