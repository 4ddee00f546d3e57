import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import PQueue from "p-queue";
import type {
  Coverage,
  InputSource,
  KnownBy,
  LookupCommit,
  LookupCounts,
  LookupRecord,
  LookupSelection,
  LookupSpec,
  Patience,
  RunEnd,
  RunRef,
  Warehouse,
} from "../warehouse.ts";
import type { ForeignDatabases } from "../inputs/foreign-database.ts";
import type { PassCheckpoint } from "../due/pass-checkpoint.ts";
import { StopJobError } from "../../errors.ts";
import { changeStates, untellStates } from "../runs/alert-states.ts";
import { checkWarehouse } from "../db/check.ts";
import { commitLookup } from "../answers/commit-lookup.ts";
import { crashPoint } from "../../crash-point.ts";
import { findRows } from "../inputs/postgres-database.ts";
import { readIdentity, readOrganization, readServiceHost, writeServiceHost } from "../db/identity.ts";
import { checkInput, isInputCursorValue } from "../inputs/input.ts";
import { readBudgetUse, readRunUse } from "../ledger/budget-rows.ts";
import { giveBack } from "../ledger/give-back.ts";
import { acquireLock, releaseLock, renewLock } from "../runs/job-lock.ts";
import { addCounters, settleLedger } from "../ledger/ledger.ts";
import { commitFeed, type MadeFeed, readCheckpoints } from "../feeds/feeds.ts";
import { readLedgerDays } from "../ledger/ledger-days.ts";
import {
  hasBudgets,
  hasErasures,
  hasSchedule,
  hasSegments,
  hasUsage,
  isMigrated,
  migrate,
  printDdl,
} from "../db/migrate.ts";
import { type SchemaNames, stateTableId } from "../db/names.ts";
import { trackLoads } from "../answers/open-loads.ts";
import { planPush } from "../feeds/plan-push.ts";
import { firstOpenSearchDay, readGaps, readQuotas } from "../feeds/usage.ts";
import { removeOld } from "../runs/remove-old.ts";
import * as runs from "../runs/runs.ts";
import * as slots from "../runs/schedule-slots.ts";
import { inRunTransaction, type RunPlace } from "../db/run-transaction.ts";
import { createSampleTable } from "../db/sample-table.ts";
import { type Selected, selectDue } from "../due/select-lookup.ts";
import { withRetries } from "../db/recovery.ts";
import { reserveCall } from "../ledger/reserve-call.ts";
import { rememberCommits } from "../answers/latest-commits.ts";
import { createRowStore } from "../answers/row-store.ts";
import { openPush } from "../feeds/segment-push.ts";
import { memberCounts, openSweep } from "../feeds/segment-sweep.ts";
import { inTransaction, openPool, type Session } from "../db/session.ts";
import { readSegments } from "../feeds/stored-segments.ts";
import {
  countPeople,
  dropTombstones,
  membershipsOf,
  noteErasure,
  noteFoundByLoads,
  readOpenErasures,
  removeErased,
} from "../erasure/erase-people.ts";
import { findPeople } from "../erasure/find-people.ts";
import { findErasedPids } from "../erasure/keep-out-sql.ts";
import { noteMissingRows, readMissingRows } from "../due/missing-rows.ts";
import { countRejects, dropRejects, listRejects, retryRejects } from "../runs/rejects.ts";
import { encodePerson } from "../answers/person-groups.ts";
import { againIfErased, noSuppression, type ReadErasureSecret } from "../erasure/suppression.ts";
import { readSuppression, requireSameEpoch } from "../erasure/suppressed-sql.ts";
import { readWorkPage } from "../due/work-table.ts";

/** How to reach a Postgres warehouse. */
export interface PostgresOptions {
  readonly url: string;
  readonly names: SchemaNames;
  /** For messages, without a secret. */
  readonly description: string;
  readonly readErasureSecret: ReadErasureSecret;
  /** Where inputs of other databases are read. */
  readonly foreign: ForeignDatabases;
}

/** Records of a selection that are read at once. */
const PAGE_SIZE = 2000;
const PARALLEL_COMMITS = 2;
/** Reservations that talk to the server at the same time: they wait for the same rows, so more would only queue there. */
const PARALLEL_RESERVATIONS = 2;
/** One for reading pages, one for the ledger, one for a selection, beside the loaders and the reservations. */
const CONNECTIONS = PARALLEL_COMMITS + PARALLEL_RESERVATIONS + 3;

/** A warehouse in Postgres 13 or newer; connects at the first use. */
export function openPostgresWarehouse(options: PostgresOptions): Warehouse {
  const { names, description, readErasureSecret, foreign } = options;
  const pool = openPool(options.url, CONNECTIONS);
  const openLoads = trackLoads();
  const reservations = new PQueue({ concurrency: PARALLEL_RESERVATIONS });
  const storeRows = createRowStore();
  const checkpoints = new Map<string, PassCheckpoint | null>();
  // A heartbeat that gets no answer must not hang until the lock has expired.
  const lockPool = openPool(options.url, 1, { connectMs: 5_000, queryMs: 5_000 });
  const runPlace: RunPlace = { pool, lockPool, names };
  const latestFeeds = rememberCommits<MadeFeed>();
  const commitContext = { ...runPlace, readErasureSecret, openLoads, latestFeeds, pause: delay };
  const forRun = <Result>(run: RunRef, work: (session: Session) => Promise<Result>) =>
    inRunTransaction(runPlace, run, work);
  const within = <Result>(work: (session: Session) => Promise<Result>) => inTransaction(pool, work);
  const foreignOf = ({ connection }: InputSource) => (connection ? foreign.of(connection) : null);
  const plainly = <Result>(work: (session: Session) => Promise<Result>) =>
    inTransaction(pool, work, { keep: false });
  const suppression = () => within((session) => readSuppression(session, names, readErasureSecret));
  const commitNow = (commit: LookupCommit) => commitLookup(commitContext, commit);

  return {
    description,
    check: () => checkWarehouse(pool, names, description),
    checkInput: (input) => foreignOf(input)?.checkInput(input) ?? checkInput(pool, input),
    isCursorValue: (input, value) =>
      foreignOf(input)?.isCursorValue(input, value) ?? isInputCursorValue(pool, input, value),
    isMigrated: () => isMigrated(pool, names),
    migrate: () => migrate(pool, names),
    printDdl: () => printDdl(names),
    readServiceHost: async () =>
      (await isMigrated(pool, names)) ? within((session) => readServiceHost(session, names)) : null,
    readIdentity: async () =>
      (await isMigrated(pool, names)) ? within((session) => readIdentity(session, names)) : null,
    writeServiceHost: (host, { replace }) =>
      within((session) => writeServiceHost(session, names, host, replace)),

    async planLookup(spec): Promise<LookupCounts> {
      const migrated = await isMigrated(pool, names);
      const remembersErasures = await hasErasures(pool, names);
      const context = { names, spec, foreign: foreignOf(spec.input), isMigrated: migrated };
      const plan = async (session: Session) => {
        const suppression = remembersErasures
          ? await readSuppression(session, names, readErasureSecret)
          : noSuppression;
        return selectDue({ ...context, session, suppression }, null);
      };
      const selected = await inTransaction(pool, plan, { keep: false });
      return selected.counts;
    },
    async selectLookup(spec, run): Promise<LookupSelection> {
      const workTable = workTableName(run);
      // By itself: other shards that look for orphans at the same time would wait until this selection is made.
      await forRun(run, (session) => runs.dropOrphanedWorkTables(session, names, spec));
      const select = () =>
        forRun(run, async (session) => {
          const suppression = await readSuppression(session, names, readErasureSecret);
          const foreign = foreignOf(spec.input);
          const context = { session, names, spec, foreign, isMigrated: true, suppression };
          const found = await selectDue(context, { run, workTable });
          await requireSameEpoch(session, names, suppression);
          return found;
        });
      const selected = await againIfErased(select);
      checkpoints.set(runKey(run), selected.checkpoint);
      return selectionOf(runPlace, { run, spec, workTable }, selected);
    },
    preparePerson: (update, answeredAt) => encodePerson(update, answeredAt, storeRows),
    commitLookup: commitNow,
    reserveCall: (run, call) =>
      reservations.add(() =>
        withRetries(delay, (attempt) =>
          reserveCall({ names, run, inTransaction: (work) => forRun(run, work) }, call, attempt > 1),
        ),
      ),
    recordAttempts(run, entries, counters) {
      const record = () =>
        forRun(run, async (session) => {
          const settled = await settleLedger(session, names, run, entries);
          // Noted before: the reply to that COMMIT was lost.
          if (entries.length > 0 && settled.size === 0) return;
          await giveBack(session, names, run, entries);
          await addCounters(session, names, run, counters, null);
        });
      // Counters alone don't show that they have been added.
      return entries.length === 0 ? record() : withRetries(delay, record);
    },
    budgetUse: async () =>
      (await hasBudgets(pool, names)) ? within((session) => readBudgetUse(session, names)) : [],
    ledgerDays: async (days) =>
      (await hasBudgets(pool, names)) ? within((session) => readLedgerDays(session, names, days)) : [],
    runUse: (run) => within((session) => readRunUse(session, names, run)),

    readCheckpoints: async (job) =>
      (await isMigrated(pool, names)) ? within((session) => readCheckpoints(session, names, job)) : [],
    commitFeed: (commit) => commitFeed(commitContext, commit),
    readOrganization: async () =>
      (await isMigrated(pool, names)) ? within((session) => readOrganization(session, names)) : null,
    firstOpenSearchDay: (orgId, upTo) => within((session) => firstOpenSearchDay(session, names, orgId, upTo)),
    readQuotas: async () =>
      (await hasUsage(pool, names)) ? within((session) => readQuotas(session, names)) : [],
    readGaps: async () =>
      (await hasUsage(pool, names)) ? within((session) => readGaps(session, names)) : [],
    readSegments: async () =>
      (await hasSegments(pool, names)) ? within((session) => readSegments(session, names)) : [],
    memberCounts: (segmentId) => within((session) => memberCounts(session, names, segmentId)),
    openSweep: (run, sweep) => openSweep(commitContext, run, sweep),
    async planPush(plan) {
      const has = {
        segments: await hasSegments(pool, names),
        erasures: await hasErasures(pool, names),
      };
      return plainly(async (session) => {
        const suppression = has.erasures
          ? await readSuppression(session, names, readErasureSecret)
          : noSuppression;
        const place = { foreign: foreignOf(plan.source), hasSegments: has.segments, suppression };
        return planPush(session, names, plan, place);
      });
    },
    openPush: (run, push) => openPush(commitContext, run, push, foreignOf(push.source)),

    acquireLock: (request) => within((session) => acquireLock(session, names, request)),
    renewLock: (run, lifeMs) => inTransaction(lockPool, (session) => renewLock(session, names, run, lifeMs)),
    releaseLock: (run) => within((session) => releaseLock(session, names, run)),

    beginRun: (run) => forRun(run, (session) => runs.beginRun(session, names, run)),
    recordDue: (run, due) => forRun(run, (session) => runs.recordDue(session, names, run, due)),
    async endRun(run: RunRef, end: RunEnd, coverage: Coverage | null) {
      const checkpoint = checkpoints.get(runKey(run)) ?? null;
      crashPoint("before_checkpoint");
      await forRun(run, (session) => runs.endRun(session, names, run, { end, coverage, checkpoint }));
      crashPoint("after_checkpoint");
    },
    lastRuns: (job, limit) => within((session) => runs.lastRuns(session, names, job, limit)),
    jobStatus: (job) => within((session) => runs.jobStatus(session, names, job)),
    tableFreshness: () => within((session) => runs.tableFreshness(session, names)),
    createSampleTable: (input, columns, rows) =>
      within((session) => createSampleTable(session, input, columns, rows)),
    watchJobs: (jobs, sinceAt, by) => within((session) => slots.watchJobs(session, names, jobs, sinceAt, by)),
    newestSlots: async () =>
      (await hasSchedule(pool, names)) ? within((session) => slots.newestSlots(session, names)) : [],
    claimSlots: (claims, by, lifeMs) =>
      within((session) => slots.claimSlots(session, names, claims, by, lifeMs)),
    renewSlots: (owner, lifeMs) => within((session) => slots.renewSlots(session, names, owner, lifeMs)),
    endSlots: (owner, ends) => within((session) => slots.endSlots(session, names, owner, ends)),
    changeStates: (states, runId) => within((session) => changeStates(session, names, states, runId)),
    untellStates: (changes) => within((session) => untellStates(session, names, changes)),
    removeOld: (retentions) => removeOld(pool, names, retentions),
    checkErasureKey: async () => {
      if (await hasErasures(pool, names)) await suppression();
    },
    findPeople: (named, inputs, { spareOthers } = { spareOthers: false }) => {
      const searched = inputs.map((input) => ({
        input,
        find: (wanted: KnownBy) => foreignOf(input)?.findRows(input, wanted) ?? findRows(pool, input, wanted),
      }));
      return plainly((session) => findPeople(session, names, named, searched, spareOthers));
    },
    countPeople: (people) => plainly((session) => countPeople(session, names, people)),
    noteErasure: (id, found) =>
      withRetries(delay, () =>
        within((session) => noteErasure(session, names, readErasureSecret, { id, found })),
      ),
    openErasures: async () =>
      (await hasErasures(pool, names)) ? within((session) => readOpenErasures(session, names)) : [],
    async removeErased(id) {
      await withRetries(delay, () =>
        within((session) => noteFoundByLoads(session, names, readErasureSecret, id)),
      );
      return withRetries(delay, () => within((session) => removeErased(session, names, id)));
    },
    dropTombstones: (olderThanMs) => within((session) => dropTombstones(session, names, olderThanMs)),
    countRejects: async (filter, { all }) =>
      (await isMigrated(pool, names)) ? within((session) => countRejects(session, names, filter, all)) : [],
    listRejects: async (filter, options) =>
      (await isMigrated(pool, names))
        ? within((session) => listRejects(session, names, filter, options))
        : [],
    retryRejects: (filter) =>
      withRetries(delay, () => within((session) => retryRejects(session, names, filter))),
    dropRejects: (filter) => within((session) => dropRejects(session, names, filter)),
    noteMissingRows: (run, watched) =>
      againIfErased(() =>
        forRun(run, async (session) => {
          const seen = await readSuppression(session, names, readErasureSecret);
          const from = { foreign: foreignOf(watched.input), runId: run.runId };
          const missing = await noteMissingRows(session, names, watched, from);
          await requireSameEpoch(session, names, seen);
          return missing;
        }),
      ),
    async noteCalls(asker, entries) {
      await withRetries(delay, () => within((session) => settleLedger(session, names, asker, entries)));
    },
    membershipsOf: (pids) => within((session) => membershipsOf(session, names, pids)),
    readMissingRows: (source, limit) => within((session) => readMissingRows(session, names, source, limit)),
    async suppressedPids(pids) {
      const { key } = await suppression();
      if (key === null || pids.length === 0) return new Set();
      return within((session) => findErasedPids(session, names, key, pids));
    },
    async close() {
      await Promise.all([pool.end(), lockPool.end(), foreign.close()]);
    },
  };
}

function runKey(run: RunRef): string {
  return JSON.stringify([run.runId, run.job, run.shard]);
}

function workTableName(run: RunRef): string {
  return `lookup_work_${createHash("sha256").update(runKey(run)).digest("hex").slice(0, 24)}`;
}

function selectionOf(
  place: RunPlace,
  of: { readonly run: RunRef; readonly spec: LookupSpec; readonly workTable: string },
  { counts, rowsWritten }: Selected,
): LookupSelection {
  const { run, spec, workTable } = of;
  const table = stateTableId(place.names, workTable);
  async function* records(within: Patience = (work) => work()): AsyncGenerator<readonly LookupRecord[]> {
    let afterOrd = 0;
    let read = 0;
    while (read < counts.toSend) {
      const page = await within(() =>
        inRunTransaction(place, run, (session) =>
          readWorkPage(session, table, spec, { afterOrd, size: PAGE_SIZE }),
        ),
      );
      // The work table is unlogged: a crash of the server empties it, which must not look like the end.
      if (page.read === 0) {
        throw new StopJobError(
          "work_table_lost",
          `${run.job}: the database has crashed meanwhile, and with it went the list of what is still to be sent ` +
            `(${read} of ${counts.toSend} records were read). Run the job again; what was answered before is kept.`,
        );
      }
      read += page.read;
      afterOrd = page.lastOrd;
      if (page.records.length > 0) yield page.records;
    }
  }
  return {
    counts,
    rowsWritten,
    records,
    close: () =>
      inRunTransaction(
        place,
        run,
        async (session) => void (await session.change(sql`DROP TABLE IF EXISTS ${table}`)),
      ),
  };
}
