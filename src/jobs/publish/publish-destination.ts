import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { crashPoint } from "../../crash-point.ts";
import { codeOf, JobLockedError, LimitReachedError, StopRunError } from "../../errors.ts";
import { readInputViews } from "../../load/db/input-views.ts";
import {
  type ClaimedBatch,
  confirmBatch,
  ERASURE_TABLES,
  isKeyBatch,
  isStillClaimed,
  type KeyBatch,
  recordRelease,
  recordVerification,
  requestSnapshot,
  type SourceMeasure,
  takeBatch,
} from "../../load/publication/batch.ts";
import {
  addDestination,
  columnsText,
  followTable,
  leaveTable,
  markTables,
  readDestination,
  readFollowed,
  readTriggered,
  restartDestination,
} from "../../load/publication/registration.ts";
import { copyRange, type Range, type RangeEnd } from "../../load/publication/rows.ts";
import { describeThisProcess, ownerOfFile, ownerPrefix, stateOfProcess } from "../../process-state.ts";
import {
  type BatchRef,
  catalogOf,
  type Catalog,
  type Destination,
  freshnessTable,
  type PublishedTable,
  type StagedFiles,
  type TableChange,
  withViews,
} from "../../publish/destination.ts";
import { copiedText, type Publication, refused } from "./publication.ts";

/** Adds a new destination. Refuses one whose batch differs from the recorded one, unless everything is published again: then restarts it. */
async function register({ db, destination }: Publication, full: boolean): Promise<void> {
  const { name } = destination;
  const read = () => db.transaction((session) => readDestination(session, name));
  const before = await read();
  if (before && !before.isOfThisDatabase && !full) {
    throw new LimitReachedError("publication_refused", copiedText(name));
  }
  if (full) await destination.restart();
  const position = await destination.position();
  if (!before) {
    if (position !== null && !full) throw refused(name);
    await db.transaction((session) => addDestination(session, name));
  }
  // Directly after the destination: a crash between the two is refused, and takes another `--full`.
  if (full) await db.transaction((session) => restartDestination(session, name, position));
  if (full || !before) return;
  const at = position?.id ?? null;
  if (at === before.confirmedId || (at !== null && at === before.claimedId)) return;
  // Another publisher may have changed it between the two reads.
  const after = await read();
  if (after?.claimedId === before.claimedId) throw refused(name);
}

/** Tables of the catalog, and those that reveal an erasure, after which a destination purges deleted values. */
function followedTables(catalog: Catalog): readonly PublishedTable[] {
  const published = catalog.tables.filter(({ name }) => name !== freshnessTable.name);
  const erasure = catalogOf([...ERASURE_TABLES]).tables;
  return [...published, ...erasure.filter(({ name }) => !published.some((table) => table.name === name))];
}

async function followTables({ db, destination: { name }, catalog }: Publication): Promise<void> {
  const tables = followedTables(catalog);
  const { followed, triggered } = await db.transaction(async (session) => ({
    followed: await readFollowed(session, name),
    triggered: await readTriggered(session, name),
  }));
  for (const left of followed.keys()) {
    if (tables.some((table) => table.name === left)) continue;
    await db.transaction((session) => leaveTable(session, name, left));
  }
  for (const table of tables) {
    if (followed.get(table.name) === columnsText(table) && triggered.has(table.name)) continue;
    await db.transaction((session) => followTable(session, name, table));
  }
}

export interface PublishOptions {
  /** Republishes all tables completely, regardless of the destination's last batch. */
  readonly full?: boolean;
  /** Compares all tables afterwards and republishes those that differ. */
  readonly verify?: boolean;
}

interface PublishReport {
  readonly destination: string;
  readonly batches: number;
  readonly rows: number;
  /** Tables that differed and were republished; null without `verify`. */
  readonly tablesDiffering: readonly string[] | null;
}

interface Drained {
  readonly batches: number;
  readonly rows: number;
  /** Measures in the snapshot of the last batch, if requested. */
  readonly measures: readonly SourceMeasure[] | null;
}

/** Brings a destination up to date. Publishes everything committed before the start, and possibly later changes. */
export async function publishDestination(
  shared: Publication,
  { full = false, verify = false }: PublishOptions = {},
): Promise<PublishReport> {
  const folder = await makeFolder(shared.folder);
  const { db, destination } = shared;
  try {
    // Must be first: a destination of another warehouse must not be changed.
    await register({ ...shared, folder }, full);
    const ofInputs = await db.transaction((session) => readInputViews(session, db.names.data));
    const catalog = withViews(shared.catalog, ofInputs);
    const publication: Publication = { ...shared, folder, catalog };
    await destination.migrate(catalog);
    await followTables(publication);
    let drained = await drain(publication, false);
    const tablesDiffering = verify ? await findDiffering(publication) : null;
    if (tablesDiffering && tablesDiffering.length > 0) {
      const again = await republish(publication, tablesDiffering);
      drained = { ...drained, batches: drained.batches + again.batches, rows: drained.rows + again.rows };
    }
    await release(publication);
    const { batches, rows } = drained;
    return { destination: destination.name, batches, rows, tablesDiffering };
  } catch (error) {
    throw explain(destination, error);
  } finally {
    // Other processes wait for its lock, and after a failed checkpoint a session of DuckDB is unusable.
    try {
      await destination.close();
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
}

/**
 * Makes a folder of this publication's own, and removes those of all processes but running ones. Another process that repeats the same batch
 * writes files of the same names, read at another snapshot.
 */
async function makeFolder(parent: string): Promise<string> {
  await mkdir(parent, { recursive: true, mode: 0o700 });
  const ourselves = await describeThisProcess();
  for (const name of await readdir(parent)) {
    // In another container, it may still be running: it then fails, and publishes the batch again.
    const state = await stateOfProcess(ownerOfFile(name), ourselves);
    if (state !== "running") await rm(join(parent, name), { recursive: true, force: true });
  }
  return mkdtemp(join(parent, ownerPrefix(ourselves)));
}

/** SQLSTATE of a row that another transaction changed after the snapshot. */
const SERIALIZATION_FAILURE = "40001";
const LOCK_NOT_AVAILABLE = "55P03";

function explain(destination: Destination, error: unknown): unknown {
  if (codeOf(error) === LOCK_NOT_AVAILABLE) {
    return new StopRunError(
      "tables_busy",
      `Destination ${destination.name} can't start tracking changes while a long transaction writes to the tables. Publish again after it ends.`,
      { cause: error },
    );
  }
  if (codeOf(error) !== SERIALIZATION_FAILURE) return destination.explain(error);
  return new JobLockedError(
    `Another process is publishing to destination ${destination.name}. Try again later.`,
    { cause: error },
  );
}

/** Publishes batches until no change is pending. */
async function drain(publication: Publication, measures: boolean): Promise<Drained> {
  const { db, destination, catalog, folder, signal } = publication;
  let drained: Drained = { batches: 0, rows: 0, measures: null };
  for (;;) {
    signal?.throwIfAborted();
    const options = {
      destination: destination.name,
      tables: catalog.tables,
      maxKeys: destination.keysPerBatch,
      format: destination.fileFormat,
      folder,
      measures,
    };
    const batch = await db.snapshot((session) => takeBatch(session, options));
    if (!batch) return drained;
    crashPoint("publication_claimed");
    const rows = await publishBatch(publication, batch);
    const isMeasured = isKeyBatch(batch) && batch.measures !== null;
    drained = {
      batches: drained.batches + 1,
      rows: drained.rows + rows,
      measures: isMeasured ? batch.measures : null,
    };
    // Under constant writes the queue is rarely empty. All changes from before the start are published.
    if (isKeyBatch(batch) && batch.isLast) return drained;
  }
}

async function publishBatch(publication: Publication, claimed: ClaimedBatch | KeyBatch): Promise<number> {
  const { db, destination, log } = publication;
  const batch: BatchRef = { ...claimed, attempt: randomBytes(6).toString("hex") };
  const isOfKeys = isKeyBatch(claimed);
  const { changes, rows } = isOfKeys
    ? await stageKeys(publication, batch, claimed)
    : await stageWhole(publication, batch, claimed.wholeTables);
  crashPoint("publication_staged");
  const outcome = await destination.commit({ ...batch, changes, erases: !isOfKeys || claimed.erases });
  crashPoint("publication_committed");
  if (outcome === "refused") {
    const isOurs = await db.transaction((s) => isStillClaimed(s, destination.name, claimed));
    if (isOurs) throw refused(destination.name);
    log.info({ destination: destination.name, batch: batch.number }, "publication_overtaken");
    return 0;
  }
  const needsFreshness = !(isOfKeys && claimed.isLast);
  await db.transaction((s) => confirmBatch(s, destination.name, batch, { rows, needsFreshness }));
  crashPoint("publication_confirmed");
  log.info({ destination: destination.name, batch: batch.number, rows }, "batch_published");
  return rows;
}

interface Staged {
  readonly changes: readonly TableChange[];
  readonly rows: number;
}

function replacesOf({ rootKey }: Pick<PublishedTable, "rootKey">): TableChange["replaces"] {
  return rootKey.length === 0 ? "all" : "keys";
}

async function stageKeys(
  { destination, catalog }: Publication,
  batch: BatchRef,
  { files, tables }: KeyBatch,
): Promise<Staged> {
  const named = new Map(catalog.tables.map((table) => [table.name, table]));
  const withRows = new Set<string>();
  let rows = 0;
  for (const file of files) {
    const table = named.get(file.table.name);
    if (!table) continue;
    await destination.stage(batch, { ...file, table, replaces: replacesOf(file.table), part: 0 });
    await Promise.all(file.files.map((path) => rm(path)));
    if (file.content === "keys") continue;
    withRows.add(table.name);
    rows += file.lines;
  }
  const changes = tables.flatMap((source) => {
    const table = named.get(source.name);
    return table ? [{ table, replaces: replacesOf(source), hasRows: withRows.has(source.name) }] : [];
  });
  return { changes, rows };
}

/** Stages whole tables by key ranges, each read in its own short snapshot while the one before is staged. */
async function stageWhole(
  { db, destination, catalog, folder, signal }: Publication,
  batch: BatchRef,
  names: readonly string[],
): Promise<Staged> {
  const format = destination.fileFormat;
  const changes: TableChange[] = [];
  let rows = 0;
  let staging = Promise.resolve();
  const stage = async (part: StagedFiles) => {
    await destination.stage(batch, part);
    await Promise.all(part.files.map((path) => rm(path)));
  };
  try {
    for (const table of catalog.tables.filter(({ name }) => names.includes(name))) {
      const rowsBefore = rows;
      let after: RangeEnd = null;
      for (let part = 0; part === 0 || after !== null; part += 1) {
        signal?.throwIfAborted();
        const prefix = join(folder, `${table.name}-${part}`);
        const { end, ...files }: Range = await db.snapshot((session) =>
          copyRange(session, table, { after, prefix, format }),
        );
        after = end;
        rows += files.lines;
        await staging;
        if (files.lines > 0) staging = stage({ table, content: "rows", replaces: "all", part, ...files });
        // Its error is thrown where it is awaited.
        staging.catch(() => {});
      }
      changes.push({ table, replaces: "all", hasRows: rows > rowsBefore });
    }
    await staging;
  } finally {
    // The caller removes the folder, so no file in it may be in use.
    await staging.catch(() => {});
  }
  return { changes, rows };
}

/** Compares every table in one snapshot. Returns the names of those that differ. */
async function findDiffering(publication: Publication): Promise<readonly string[]> {
  const { db, destination, catalog } = publication;
  const { name } = destination;
  const expected = await measureSource(publication);
  const measured = catalog.tables.filter((table) => expected.some((measure) => measure.table === table.name));
  const found = new Map((await destination.measure(measured)).map((measure) => [measure.table, measure]));
  const differing = expected.flatMap(({ table, rows, hash }) => {
    const there = found.get(table);
    return there?.rows === rows && there.hash === hash ? [] : [table];
  });
  await db.transaction((session) => recordVerification(session, name, differing));
  return differing;
}

/** Drains whose snapshot another process may take before a comparison gives up. */
const MOST_DRAINS = 5;

/** Publishes until no change is pending. Returns the measures in that snapshot. */
async function measureSource(publication: Publication): Promise<readonly SourceMeasure[]> {
  const { db, destination } = publication;
  await db.transaction((session) => requestSnapshot(session, destination.name));
  for (let drained = 0; drained < MOST_DRAINS; drained += 1) {
    const { measures } = await drain(publication, true);
    if (measures) return measures;
  }
  throw new StopRunError(
    "destination_busy",
    `Destination ${destination.name} can't be compared while another process publishes to it. Try again later.`,
  );
}

async function republish(publication: Publication, tables: readonly string[]): Promise<Drained> {
  const { db, destination, log } = publication;
  log.warn({ destination: destination.name, tables }, "tables_differ");
  await db.transaction((session) => markTables(session, destination.name, tables));
  const drained = await drain(publication, false);
  const left = await findDiffering(publication);
  if (left.length === 0) return drained;
  throw new StopRunError(
    "destination_differs",
    `Destination ${destination.name} still differs in ${left.join(", ")} after these tables were published again. ` +
      `Run \`publish ${destination.name} --full\`; if they differ again, another program writes to it.`,
  );
}

/** Makes committed batches visible to readers. */
async function release({ db, destination, log }: Publication): Promise<void> {
  const state = await db.transaction((session) => readDestination(session, destination.name));
  const removed = await destination.finish();
  if (removed && removed.snapshots + removed.files > 0)
    log.info({ destination: destination.name, ...removed }, "destination_cleaned");
  await db.transaction((session) => recordRelease(session, destination.name, state?.confirmedId ?? null));
}
