import {
  checkErasureKey,
  completeErasures,
  readOpenErasures,
  requestErasure,
} from "../../src/load/erasure/requests.ts";
import type { RunRef } from "../../src/load/runs/fence.ts";
import type { Db } from "../../src/load/db/db.ts";
import { openWarehouse as open, type WarehouseTarget } from "../../src/load/open.ts";
import {
  createRowStore,
  encodePerson,
  type PersonUpdate,
  type PreparedPerson,
} from "../../src/load/lookups/person-groups.ts";
import { commitLookup } from "../../src/load/lookups/commit.ts";
import { readIdentity, writeServiceHost } from "../../src/load/db/identity.ts";
import { createSampleTable } from "../../src/load/db/copy.ts";
import { isMigrated, migrate, printDdl } from "../../src/load/db/migrate.ts";
import { checkDatabase, printGrants } from "../../src/load/db/check.ts";
import { previewLookup, selectLookup } from "../../src/load/lookups/selection.ts";
import { countPeople, dropTombstones, membershipsOf, removeErased } from "../../src/load/erasure/remove.ts";
import { findPeople } from "../../src/load/erasure/find.ts";
import type { Writing } from "../../src/load/write/upsert.ts";
import { readErasedPids } from "../../src/load/write/erased.ts";
import { type Commit, commit, readCheckpoints } from "../../src/load/write/commit.ts";
import {
  addMembers,
  clearListed,
  countMembers,
  type MemberPageRows,
  type ProvenSpan,
  readSegments,
  removeMembers,
} from "../../src/load/feeds/members.ts";
import {
  comparePush,
  countPush,
  finishBatch,
  noteListedPids,
  type PushAnswer,
  type PushReading,
  readWanted,
  returnBatch,
  takeBatch,
} from "../../src/load/feeds/push.ts";
import { firstOpenSearchDay, readGaps, readQuotas } from "../../src/load/feeds/usage.ts";
import { checkInput } from "../../src/load/inputs/read.ts";
import { readBudgetUse, readRunUse, reserveCall } from "../../src/load/ledger/reserve.ts";
import { readBilledInRun, readLedgerDays } from "../../src/load/ledger/costs.ts";
import { recordAttempts, recordCalls } from "../../src/load/ledger/ledger.ts";
import { changeStates, unmarkReported } from "../../src/load/runs/alerts.ts";
import { acquireLock, releaseLock, renewLock } from "../../src/load/runs/lock.ts";
import { countRejects, dropRejects, listRejects, retryRejects } from "../../src/load/runs/rejects.ts";
import { removeOld } from "../../src/load/runs/retention.ts";
import { beginRun, endRun, recordFound } from "../../src/load/runs/runs.ts";
import { claimSlots, endSlots, newestSlots, renewSlots, watchJobs } from "../../src/load/runs/slots.ts";
import { jobStatus, lastRuns, tableFreshness } from "../../src/load/runs/status.ts";

/** A commit of a feed with its run. */
export interface FeedCommit extends Commit<unknown> {
  readonly run: RunRef;
}

/** Commits with further writes; repeated with the same commit, it is another attempt. */
async function commitAlso<Result>(
  db: Db,
  parts: FeedCommit,
  also: (writing: Writing) => Promise<Result>,
): Promise<Result & { readonly rowsWritten: number }> {
  const done = await commit(db, parts.run, Object.assign(parts, { also }));
  // The result of `also`.
  return Object.assign({ rowsWritten: done.rowsWritten }, done.also as Result);
}

/** {@link addMembers}, committed. */
export function commitMembers(db: Db, parts: FeedCommit, page: MemberPageRows) {
  return commitAlso(db, parts, (writing) => addMembers(writing, page));
}

/** {@link removeMembers}, committed. */
export function commitRemovals(db: Db, parts: FeedCommit, segmentId: string, spans: readonly ProvenSpan[]) {
  return commitAlso(db, parts, (writing) => removeMembers(writing, segmentId, spans));
}

/** {@link comparePush}, committed. */
export function commitComparison(db: Db, parts: FeedCommit, reading: PushReading) {
  return commitAlso(db, parts, (writing) => comparePush(writing, reading));
}

/** {@link finishBatch}, committed. */
export function commitBatch(db: Db, parts: FeedCommit, answer: PushAnswer) {
  return commitAlso(db, parts, (writing) => finishBatch(writing, answer));
}

const functions = {
  completeErasures,
  requestErasure,
  acquireLock,
  addMembers: commitMembers,
  beginRun,
  budgetUse: readBudgetUse,
  changeStates,
  check: checkDatabase,
  checkErasureKey,
  checkInput,
  claimSlots,
  clearListed,
  commitFeed: async (db: Db, parts: FeedCommit) => (await commit(db, parts.run, parts)).results,
  commitLookup,
  countMembers,
  countPeople,
  countPush,
  countRejects,
  createSampleTable,
  dropRejects,
  dropTombstones,
  endRun,
  endSlots,
  findPeople,
  finishBatch: commitBatch,
  firstOpenSearchDay,
  isMigrated,
  jobStatus,
  lastRuns,
  ledgerDays: readLedgerDays,
  billedInRun: readBilledInRun,
  listRejects,
  membershipsOf,
  migrate,
  newestSlots,
  recordCalls,
  noteListedPids,
  openErasures: readOpenErasures,
  preparePerson: (_db: Db, update: PersonUpdate): PreparedPerson => encodePerson(update, createRowStore()),
  previewLookup,
  printDdl,
  printGrants,
  readCheckpoints,
  readGaps,
  readIdentity,
  readQuotas,
  readSegments,
  readWanted,
  recordAttempts,
  recordFound,
  releaseLock,
  removeErased,
  removeOld,
  renewLock,
  renewSlots,
  reserveCall,
  retryRejects,
  returnBatch,
  runUse: readRunUse,
  selectLookup,
  removeMembers: commitRemovals,
  comparePush: commitComparison,
  readErasedPids,
  tableFreshness,
  takeBatch,
  unmarkReported,
  watchJobs,
  writeServiceHost,
};

type Bound = {
  readonly [Name in keyof typeof functions]: (typeof functions)[Name] extends (
    db: never,
    ...args: infer Args
  ) => infer Result
    ? (...args: Args) => Result
    : never;
};

/** Functions of `src/load` bound to a database, for tests that call many of them. */
export interface Warehouse extends Bound {
  readonly db: Db;
  readonly description: string;
  close(): Promise<void>;
}

/** Fills in the database. */
export function bindLoad(db: Db): Warehouse {
  const bound = Object.fromEntries(
    Object.entries(functions).map(([name, work]) => [
      name,
      // Each entry is a function whose first parameter is a database.
      (...args: readonly unknown[]) => (work as (...all: readonly unknown[]) => unknown)(db, ...args),
    ]),
  ) as unknown as Bound;
  return {
    ...bound,
    db,
    description: db.description,
    close: () => db.close(),
  };
}

/** Schemas of a configuration that names none. */
const schemas = { schema: "person_data", opsSchema: "person_data_ops", stateSchema: "person_data_state" };

/** Opens a database with its functions bound. */
export function openWarehouse(target: Pick<WarehouseTarget, "url"> & Partial<WarehouseTarget>): Warehouse {
  return bindLoad(open({ ...schemas, ...target }));
}
