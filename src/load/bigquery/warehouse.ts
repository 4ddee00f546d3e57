import { systemClock } from "../../clock.ts";
import { crashPoint } from "../../crash-point.ts";
import type { PassCheckpoint } from "../pass-checkpoint.ts";
import type { ForeignDatabases, Reading } from "../foreign-database.ts";
import type {
  Gathering,
  InputSource,
  KnownBy,
  LookupCounts,
  LookupSelection,
  RunRef,
  Warehouse,
} from "../warehouse.ts";
import { createBatcher } from "./batcher.ts";
import { readBudgetUse, readRunUse } from "./budget-rows.ts";
import { checkWarehouse } from "./check.ts";
import { type Client, type ClientOptions, openClient } from "./client.ts";
import { commitLookup, openCommit } from "./commit-lookup.ts";
import {
  countPeople,
  dropTombstones,
  noteErasure,
  noteFoundByLoads,
  readOpenErasures,
  readStones,
  removeErased,
} from "./erase-people.ts";
import { findPeople } from "./find-people.ts";
import { forgetLists } from "./forget-lists.ts";
import { checkInput, isCursorValue } from "./input.ts";
import { openForeignInput } from "./foreign-input.ts";
import { findErasedPids } from "./keep-out.ts";
import { createLoadPace } from "./load-pace.ts";
import { findNamingRows } from "./naming-rows.ts";
import { clearManifests, inputTable } from "./manifest.ts";
import { stagingName } from "./staging.ts";
import { dropOrphanedSelections, dropSelection } from "./selection-tables.ts";
import { inRunTransaction, requireLock } from "./run-transaction.ts";
import { selectDue } from "./select-lookup.ts";
import { selectionOf } from "./selection.ts";
import { stagePerson } from "./staged-person.ts";
import { keysOf, noteMissingRows, readMissingRows } from "./missing-rows.ts";
import { planPush } from "./plan-push.ts";
import { openPush } from "./segment-push.ts";
import { membershipsOf } from "./memberships.ts";
import { changeStates, untellStates } from "./alert-states.ts";
import { removeOld } from "./remove-old.ts";
import { countRejects, dropRejects, listRejects, retryRejects } from "./rejects.ts";
import * as slots from "./schedule-slots.ts";
import { commitFeed, readCheckpoints } from "./feeds.ts";
import { readIdentity, readOrganization, readServiceHost, writeServiceHost } from "./identity.ts";
import { acquireLock, releaseLock, renewLock } from "./job-lock.ts";
import { settleLedger } from "./ledger.ts";
import { readLedgerDays } from "./ledger-days.ts";
import { hasTable, isMigrated, migrate, printDdl } from "./migrate.ts";
import { type Attempts, recordAttempts } from "./record-attempts.ts";
import { createReserving, type Reserving } from "./reserve-call.ts";
import * as runs from "./runs.ts";
import { createSampleTable } from "./sample-table.ts";
import { memberCounts, openSweep } from "./segment-sweep.ts";
import { ErasedMeanwhileError, noSuppression, type ReadErasureSecret } from "../suppression.ts";
import { scannedBytes } from "./scan-size.ts";
import { rememberCommits } from "../latest-commits.ts";
import { type JobPlace, openSession, type TransactionWork } from "./session.ts";
import { readSegments } from "./stored-segments.ts";
import { openSuppression } from "./suppression.ts";
import { jobStatus, tableFreshness } from "./status.ts";
import { firstOpenSearchDay, readGaps, readQuotas } from "./usage.ts";

/** How to reach a warehouse in BigQuery. */
export interface BigQueryOptions extends ClientOptions {
  /** Names of the two datasets. */
  readonly data: string;
  readonly ops: string;
  readonly location: string | null;
  readonly maximumBytesBilled: number | null;
  /** Folder for rows on their way into the warehouse: personal data. */
  readonly workFolder: string;
  readonly gathering: Gathering;
  /** For messages. */
  readonly description: string;
  /** The way to the REST interface, where it isn't made of these options. */
  readonly client?: Client;
  readonly readErasureSecret: ReadErasureSecret;
  /** Where inputs of other databases are read. */
  readonly foreign: ForeignDatabases;
}

/** What a run that this process works on has under way here. */
interface RunWork {
  readonly reserving: Reserving;
  readonly record: (attempts: Attempts) => Promise<true>;
}

/** A warehouse in BigQuery; connects at the first use. */
export function openBigQueryWarehouse(options: BigQueryOptions): Warehouse {
  const { description, location, maximumBytesBilled, foreign } = options;
  const names = { project: options.project, data: options.data, ops: options.ops };
  const session = openSession({
    client: options.client ?? openClient(options),
    names,
    location,
    maximumBytesBilled,
    pace: createLoadPace(options.workFolder, systemClock),
  });
  const readSecret = options.readErasureSecret;
  const suppression = openSuppression(session, readSecret);
  const latestFeeds = rememberCommits<JobPlace>();
  const loadContext = { session, workFolder: options.workFolder, suppression, latestFeeds };
  const checkpoints = new Map<string, PassCheckpoint | null>();
  const works = new Map<string, RunWork>();

  /** How to open an input of another database by way of a table; null for one in BigQuery. */
  function foreignInput(input: InputSource, table: string) {
    const { connection } = input;
    if (connection === null) return null;
    const stage = { workFolder: options.workFolder, table };
    return (reading: Reading) =>
      openForeignInput(session, stage, { database: foreign.of(connection), input, reading });
  }

  function workOf(run: RunRef): RunWork {
    const known = works.get(runKey(run)) ?? {
      reserving: createReserving(session, run),
      record: createBatcher(async (all: readonly Attempts[]) => {
        await recordAttempts(session, run, all);
        return all.map(() => true as const);
      }),
    };
    works.set(runKey(run), known);
    return known;
  }

  return {
    description,
    // Commits conflict by table.
    parallelCommits: 1,
    gathering: options.gathering,
    check: () => checkWarehouse(session, description),
    checkInput: (input) =>
      input.connection ? foreign.of(input.connection).checkInput(input) : checkInput(session, input),
    isCursorValue: (input, value) =>
      input.connection
        ? foreign.of(input.connection).isCursorValue(input, value)
        : isCursorValue(session, input, value),
    isMigrated: () => isMigrated(session),
    migrate: () => migrate(session),
    printDdl: async () => printDdl(names, location),
    readServiceHost: async () => ((await isMigrated(session)) ? readServiceHost(session) : null),
    readIdentity: async () => ((await isMigrated(session)) ? readIdentity(session) : null),
    writeServiceHost: (host, { replace }) => writeServiceHost(session, host, replace),

    async planLookup(spec): Promise<LookupCounts> {
      const migrated = await isMigrated(session);
      const known = migrated ? await suppression.refresh() : noSuppression;
      const openForeign = foreignInput(spec.input, stagingName("plan"));
      const context = { session, names, spec, isMigrated: migrated, suppression: known, openForeign };
      return (await selectDue(context, null)).counts;
    },
    async scannedBytes(spec) {
      const { connection } = spec.input;
      const context = { session, names, spec, isMigrated: await isMigrated(session) };
      return scannedBytes({ ...context, foreign: connection && foreign.of(connection) });
    },
    async selectLookup(spec, run): Promise<LookupSelection> {
      // It clears away what is under the lock of this run.
      await requireLock(session, run);
      await dropOrphanedSelections(session, spec);
      const openForeign = foreignInput(spec.input, inputTable(run));
      const transaction = <Row>(work: TransactionWork<Row>) => inRunTransaction(session, run, work);
      return suppression.within(async (known) => {
        const context = { session, names, spec, isMigrated: true, suppression: known, openForeign };
        const selected = await selectDue(context, { run, transaction }).catch(async (error: unknown) => {
          // What can't be dropped expires.
          await dropSelection(session, run).catch(() => {});
          throw error;
        });
        // What was frozen is in no transaction.
        if ((await suppression.refresh()).epoch !== known.epoch) throw new ErasedMeanwhileError();
        checkpoints.set(runKey(run), selected.checkpoint);
        return selectionOf({ session, run, spec, suppression, epoch: known.epoch }, selected);
      });
    },
    preparePerson: stagePerson,
    commitLookup: (commit) => commitLookup(loadContext, commit),
    openCommit: (head) => openCommit(loadContext, head),
    reserveCall: (run, call) => workOf(run).reserving.reserve(call),
    async recordAttempts(run, entries, counters) {
      await workOf(run).record({ entries, counters });
    },
    budgetUse: async () => ((await isMigrated(session)) ? readBudgetUse(session) : []),
    ledgerDays: async (days) => ((await isMigrated(session)) ? readLedgerDays(session, days) : []),
    runUse: (run) => readRunUse(session, run),

    async acquireLock(request) {
      const reply = await acquireLock(session, request);
      if (reply.kind === "held") await clearManifests(session, options.workFolder, reply.run);
      return reply;
    },
    renewLock: (run, lifeMs) => renewLock(session, run, lifeMs),
    async releaseLock(run) {
      works.delete(runKey(run));
      await releaseLock(session, run);
    },

    beginRun: (run) => runs.beginRun(session, run),
    recordDue: (run, due) => runs.recordDue(session, run, due),
    async endRun(run, end, coverage) {
      const checkpoint = checkpoints.get(runKey(run)) ?? null;
      crashPoint("before_checkpoint");
      await works.get(runKey(run))?.reserving.giveBackRest();
      await runs.endRun(session, run, { end, coverage, checkpoint });
      crashPoint("after_checkpoint");
    },
    lastRuns: (job, limit) => runs.lastRuns(session, job, limit),
    jobStatus: (job) => jobStatus(session, job),
    tableFreshness: () => tableFreshness(session),
    createSampleTable: (input, columns, rows) => createSampleTable(session, input, columns, rows),

    readCheckpoints: async (job) => ((await isMigrated(session)) ? readCheckpoints(session, job) : []),
    commitFeed: (commit) => commitFeed(loadContext, commit),
    readOrganization: async () => ((await isMigrated(session)) ? readOrganization(session) : null),
    firstOpenSearchDay: (orgId, upTo) => firstOpenSearchDay(session, orgId, upTo),
    readQuotas: async () => ((await isMigrated(session)) ? readQuotas(session) : []),
    readGaps: async () => ((await isMigrated(session)) ? readGaps(session) : []),
    readSegments: async () => ((await hasTable(session, "segment_sync")) ? readSegments(session) : []),
    memberPagesPerCommit: 100,
    memberCounts: (segmentId) => memberCounts(session, segmentId),
    openSweep: (run, sweep) => openSweep(loadContext, run, sweep),
    async planPush(plan) {
      const { connection } = plan.source;
      const hasSegments = await hasTable(session, "segment_sync");
      return planPush(session, plan, {
        openForeign: foreignInput(plan.source, stagingName("plan")),
        foreign: connection && foreign.of(connection),
        hasSegments,
        suppression: hasSegments ? await suppression.refresh() : noSuppression,
      });
    },
    openPush: (run, push) => openPush(loadContext, run, push, foreignInput(push.source, inputTable(run))),
    watchJobs: (jobs, sinceAt, by) => slots.watchJobs(session, jobs, sinceAt, by),
    newestSlots: async () => ((await hasTable(session, "schedule_slot")) ? slots.newestSlots(session) : []),
    claimSlots: (claims, by, lifeMs) => slots.claimSlots(session, claims, by, lifeMs),
    renewSlots: (owner, lifeMs) => slots.renewSlots(session, owner, lifeMs),
    endSlots: (owner, ends) => slots.endSlots(session, owner, ends),
    changeStates: (states, runId) => changeStates(session, states, runId),
    untellStates: (changes) => untellStates(session, changes),
    removeOld: (retentions) => removeOld(session, retentions),
    async checkErasureKey() {
      await suppression.refresh();
    },
    openErasures: () => readOpenErasures(session),
    async suppressedPids(pids) {
      const { key } = await suppression.refresh();
      return key === null || pids.length === 0 ? new Set() : findErasedPids(session, key, pids);
    },
    findPeople: (named, inputs, { spareOthers } = { spareOthers: false }) => {
      const searched = inputs.map((input) => ({
        input,
        find: (wanted: KnownBy) =>
          input.connection
            ? foreign.of(input.connection).findRows(input, wanted)
            : findNamingRows(session, input, wanted),
      }));
      return findPeople(session, named, searched, spareOthers);
    },
    countPeople: (people) => countPeople(session, people),
    noteErasure: (id, found) =>
      suppression.within((known) => noteErasure(session, { id, readSecret, known }, found)),
    async removeErased(id) {
      await suppression.within((known) => noteFoundByLoads(session, { id, known }));
      const listed = await forgetLists(session, options.workFolder, await readStones(session, id));
      return removeErased(session, id, listed);
    },
    dropTombstones: (olderThanMs) => dropTombstones(session, olderThanMs),
    noteMissingRows: (run, watched) =>
      suppression.within((known) => {
        const openForeign = foreignInput(keysOf(watched.input), inputTable(run));
        return noteMissingRows(session, run, watched, openForeign, known);
      }),
    readMissingRows: (source, limit) => readMissingRows(session, source, limit),
    async noteCalls(asker, entries) {
      await session.transaction(settleLedger(session.names, asker, entries));
    },
    membershipsOf: (pids) => membershipsOf(session, pids),
    countRejects: async (filter, { all }) =>
      (await isMigrated(session)) ? countRejects(session, filter, all) : [],
    listRejects: async (filter, options) =>
      (await isMigrated(session)) ? listRejects(session, filter, options) : [],
    retryRejects: (filter) => retryRejects(session, filter),
    dropRejects: (filter) => dropRejects(session, filter),
    close: () => foreign.close(),
  };
}

function runKey({ runId, job, shard, epoch }: RunRef): string {
  return JSON.stringify([runId, job, shard, epoch]);
}
