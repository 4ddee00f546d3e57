import * as check from "../../src/load/db/check.ts";
import * as copy from "../../src/load/db/copy.ts";
import type { Db, WarehouseTarget } from "../../src/load/db/db.ts";
import * as identity from "../../src/load/db/identity.ts";
import * as migrate from "../../src/load/db/migrate.ts";
import * as find from "../../src/load/erasure/find.ts";
import * as remove from "../../src/load/erasure/remove.ts";
import * as requests from "../../src/load/erasure/requests.ts";
import * as members from "../../src/load/feeds/members.ts";
import * as push from "../../src/load/feeds/push.ts";
import * as inputs from "../../src/load/inputs/read.ts";
import * as ledger from "../../src/load/ledger/ledger.ts";
import * as reserve from "../../src/load/ledger/reserve.ts";
import * as lookups from "../../src/load/lookups/commit.ts";
import { createRowStore, encodePerson, type PersonUpdate } from "../../src/load/lookups/person-groups.ts";
import * as selection from "../../src/load/lookups/selection.ts";
import { openWarehouse as open } from "../../src/load/open.ts";
import * as alerts from "../../src/load/runs/alerts.ts";
import type { RunRef } from "../../src/load/runs/fence.ts";
import * as lock from "../../src/load/runs/lock.ts";
import * as rejects from "../../src/load/runs/rejects.ts";
import * as retention from "../../src/load/runs/retention.ts";
import * as runs from "../../src/load/runs/runs.ts";
import * as slots from "../../src/load/runs/slots.ts";
import * as status from "../../src/load/runs/status.ts";
import { type Commit, commit } from "../../src/load/write/commit.ts";
import type { Writing } from "../../src/load/write/upsert.ts";

/** A commit of a feed with its run. */
export interface FeedCommit extends Commit<unknown> {
  readonly run: RunRef;
}

/** Makes a function of a commit one that commits; repeated with the same commit, it is another attempt. */
const committed =
  <Args extends readonly unknown[], Result>(also: (writing: Writing, ...args: Args) => Promise<Result>) =>
  async (db: Db, parts: FeedCommit, ...args: Args): Promise<Result & { readonly rowsWritten: number }> => {
    const written = { also: (writing: Writing) => also(writing, ...args) };
    const done = await commit(db, parts.run, Object.assign(parts, written));
    // The result of `also`.
    return Object.assign({ rowsWritten: done.rowsWritten }, done.also as Result);
  };

const ofAudiences = { ...members, ...push };
const ofDatabase = { ...check, ...copy, ...identity, ...migrate };
const ofPersons = { ...find, ...remove, ...requests };
const ofLookups = { ...inputs, ...ledger, ...reserve, ...lookups, ...selection };
const ofRuns = { ...alerts, ...lock, ...rejects, ...retention, ...runs, ...slots, ...status };
const functions = {
  ...ofAudiences,
  ...ofDatabase,
  ...ofPersons,
  ...ofLookups,
  ...ofRuns,
  addMembers: committed(members.addMembers),
  comparePush: committed(push.comparePush),
  finishBatch: committed(push.finishBatch),
  removeMembers: committed(members.removeMembers),
  commitFeed: async (db: Db, parts: FeedCommit) => (await commit(db, parts.run, parts)).results,
  preparePerson: (_db: Db, update: PersonUpdate) => encodePerson(update, createRowStore()),
};

type Functions = typeof functions;

/** Those whose first parameter is a database. */
type Bound = {
  readonly [Name in keyof Functions as Functions[Name] extends (db: Db, ...args: never) => unknown
    ? Name
    : never]: Functions[Name] extends (db: never, ...args: infer Args) => infer Result
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
