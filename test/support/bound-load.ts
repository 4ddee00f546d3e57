import { completeErasures, readOpenErasures, requestErasure } from "../../src/load/erasure/requests.ts";
import type { RunRef } from "../../src/load/runs/fence.ts";
import type { Db, WarehouseTarget } from "../../src/load/db/db.ts";
import { openWarehouse as open } from "../../src/load/open.ts";
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
import { countPeople, removeErased } from "../../src/load/erasure/remove.ts";
import { findPeople } from "../../src/load/erasure/find.ts";
import type { Writing } from "../../src/load/write/upsert.ts";
import { type Commit, commit } from "../../src/load/write/commit.ts";
import {
  addMembers,
  clearListed,
  type MemberPageRows,
  type ProvenSpan,
  removeMembers,
} from "../../src/load/feeds/members.ts";
import {
  comparePush,
  finishBatch,
  noteListedPids,
  type PushAnswer,
  type PushReading,
  readWanted,
  takeBatch,
} from "../../src/load/feeds/push.ts";
import { checkInput } from "../../src/load/inputs/read.ts";
import { reserveCall } from "../../src/load/ledger/reserve.ts";
import { recordAttempts } from "../../src/load/ledger/ledger.ts";
import { changeStates } from "../../src/load/runs/alerts.ts";
import { acquireLock, releaseLock, renewLock } from "../../src/load/runs/lock.ts";
import { dropRejects } from "../../src/load/runs/rejects.ts";
import { removeOld } from "../../src/load/runs/retention.ts";
import { beginRun, endRun, recordFound } from "../../src/load/runs/runs.ts";
import { claimSlots, endSlots, newestSlots } from "../../src/load/runs/slots.ts";
import { jobStatus } from "../../src/load/runs/status.ts";

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
function commitMembers(db: Db, parts: FeedCommit, page: MemberPageRows) {
  return commitAlso(db, parts, (writing) => addMembers(writing, page));
}

/** {@link removeMembers}, committed. */
function commitRemovals(db: Db, parts: FeedCommit, segmentId: string, spans: readonly ProvenSpan[]) {
  return commitAlso(db, parts, (writing) => removeMembers(writing, segmentId, spans));
}

/** {@link comparePush}, committed. */
function commitComparison(db: Db, parts: FeedCommit, reading: PushReading) {
  return commitAlso(db, parts, (writing) => comparePush(writing, reading));
}

/** {@link finishBatch}, committed. */
function commitBatch(db: Db, parts: FeedCommit, answer: PushAnswer) {
  return commitAlso(db, parts, (writing) => finishBatch(writing, answer));
}

const functions = {
  completeErasures,
  requestErasure,
  acquireLock,
  addMembers: commitMembers,
  beginRun,
  changeStates,
  check: checkDatabase,
  checkInput,
  claimSlots,
  clearListed,
  commitFeed: async (db: Db, parts: FeedCommit) => (await commit(db, parts.run, parts)).results,
  commitLookup,
  countPeople,
  createSampleTable,
  dropRejects,
  endRun,
  endSlots,
  findPeople,
  finishBatch: commitBatch,
  isMigrated,
  jobStatus,
  migrate,
  newestSlots,
  noteListedPids,
  openErasures: readOpenErasures,
  preparePerson: (_db: Db, update: PersonUpdate): PreparedPerson => encodePerson(update, createRowStore()),
  previewLookup,
  printDdl,
  printGrants,
  readIdentity,
  readWanted,
  recordAttempts,
  recordFound,
  releaseLock,
  removeErased,
  removeOld,
  renewLock,
  reserveCall,
  selectLookup,
  removeMembers: commitRemovals,
  comparePush: commitComparison,
  takeBatch,
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
