import { sql } from "kysely";
import { crashPoint } from "../../crash-point.ts";
import type { Suppression } from "../suppression.ts";
import type { CommitGroup, CommitHead, CommitResult, LookupCommit } from "../warehouse.ts";
import { openCommitFile } from "./commit-file.ts";
import { type Booked, type CommitOutcome, commitTransaction, type Refused } from "./commit-transaction.ts";
import { badAnswers } from "./data-fault.ts";
import { BigQueryFailure, isAborted } from "./failure.ts";
import { type KeptLines, keepOut } from "./keep-out.ts";
import { openManifest } from "./manifest.ts";
import { tableText } from "./names.ts";
import { inRunTransaction } from "./run-transaction.ts";
import type { Session } from "./session.ts";
import { stagedColumnsOf } from "./staged-columns.ts";
import { createStagingTable, dropTable, loadFile } from "./staging.ts";
import type { SuppressionReader } from "./suppression.ts";

/** What a commit needs beside its content. */
export interface CommitContext {
  readonly session: Session;
  /** Folder for the file that is loaded, and for its manifest. */
  readonly workFolder: string;
  readonly suppression: SuppressionReader;
}

/** Lines that have been loaded into the staging table. */
interface Staged extends Pick<KeptLines, "learnt" | "outHashes"> {
  /** Nobody was erased since who is in them. */
  readonly epoch: number;
}

const NOBODY_OUT = { learnt: [], outHashes: [] };

/** Commits some calls at once. */
export async function commitLookup(context: CommitContext, commit: LookupCommit): Promise<CommitResult> {
  const { run, onBehalfOf, spec, ...part } = commit;
  const group = await openCommit(context, { run, spec, ...(onBehalfOf ? { onBehalfOf } : {}) });
  try {
    await group.add(part);
    return await group.commit();
  } finally {
    await group.discard();
  }
}

/**
 * Gathers calls in a file and commits them as one: the file is loaded into a table of its own, and one transaction moves rows,
 * states, ledger and counters from there. A call that is in the ledger already is left out.
 */
export async function openCommit(context: CommitContext, head: CommitHead): Promise<CommitGroup> {
  const { session, workFolder } = context;
  const { run, spec } = head;
  const parts: Booked[] = [];
  const manifest = await openManifest(workFolder, run);
  const file = openCommitFile(manifest.file("answers.ndjson"), manifest.file("told.ndjson"), spec);
  const table = manifest.table("answers");
  let attempts = 0;
  let isMade = false;
  let staged: Staged | null = null;
  let done: CommitResult | null = null;

  async function stage({ epoch, key }: Suppression): Promise<Staged> {
    if (staged?.epoch === epoch || file.facts.lines === 0) return staged ?? { epoch, ...NOBODY_OUT };
    await file.close();
    const kept = key === null ? null : await keepOut(session, key, file, manifest.file("kept.ndjson"));
    const callIds = parts.flatMap(({ ledger }) => ledger.map(({ callId }) => callId));
    await manifest.note({ run, callIds, tables: [table] });
    crashPoint("before_copy");
    const columns = stagedColumnsOf(spec.type);
    // Somebody was erased since it was filled.
    if (staged !== null) await dropTable(session, table);
    staged = null;
    isMade = true;
    await createStagingTable(session, table, columns);
    attempts += 1;
    if (kept === null || kept.lines > 0) {
      const path = kept?.path ?? file.path;
      await loadFile(session, { file: path, table, columns, jobId: manifest.jobId("answers", attempts) });
    }
    crashPoint("after_copy");
    staged = { epoch, ...(kept ?? NOBODY_OUT) };
    return staged;
  }

  async function apply(
    suppression: Suppression,
    content: Staged,
    refused: readonly Refused[],
  ): Promise<CommitResult> {
    const work = commitTransaction({ session, head, table, file, parts, refused, suppression, content });
    const [row] = await inRunTransaction<CommitOutcome>(session, run, work);
    const wasNew = row?.is_new === true;
    return {
      rowsWritten: wasNew ? row.written : 0,
      notLoadable: wasNew ? refused.map((one) => one.record_id) : [],
    };
  }

  async function applyWhatCanBeStored(suppression: Suppression): Promise<CommitResult> {
    const content = await stage(suppression);
    crashPoint("before_commit");
    try {
      return await apply(suppression, content, []);
    } catch (error) {
      if (file.facts.lines === 0 || !mayBeDataFault(error)) throw error;
      const stageId = tableText(session.names, "data", table);
      const refused = await session.rows<Refused>(sql.raw(badAnswers(stageId, spec.type)));
      if (refused.length === 0) throw error;
      return apply(suppression, content, refused);
    }
  }

  async function discard(): Promise<void> {
    await file.close();
    if (isMade) await dropTable(session, table);
    isMade = false;
    await manifest.end();
  }

  return {
    async add({ answers, rejects, ...booked }) {
      parts.push(booked);
      await file.write(answers, rejects, booked.ledger[0]?.callId ?? null);
    },
    async commit() {
      if (done === null) {
        done = await context.suppression.within(applyWhatCanBeStored);
        crashPoint("after_commit");
      }
      await discard();
      return done;
    },
    discard,
  };
}

/** Whether a value may be at fault: which messages BigQuery has for that isn't documented, so the lines are looked at. */
function mayBeDataFault(error: unknown): boolean {
  if (!(error instanceof BigQueryFailure) || isAborted(error, "erased_meanwhile")) return false;
  return error.code === "invalidQuery" || error.code === "invalid";
}
