import { createHash, randomBytes } from "node:crypto";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { messageOf, StopRunError } from "../../errors.ts";
import { integer, timestamptz, uuid } from "../../schemas/field.ts";
import { columnsOf } from "../../schemas/table.ts";
import type { View } from "../../schemas/views/view.ts";
import type {
  BatchRef,
  Catalog,
  Destination,
  Measure,
  Position,
  PublishedTable,
  StagedBatch,
  StagedFiles,
  TableChange,
} from "../destination.ts";
import { keepFile } from "../duckdb/files.ts";
import type { StagedTable } from "../duckdb/statements.ts";
import { isConflict } from "./catalog.ts";
import type { LoadedTable, Snapshot, TableUpdate } from "./specification.ts";
import { cleanTables, prefixOf, refuseOutside, refuseShared } from "./cleaning.ts";
import { addStaged, measureFiles, removeKeys, write } from "./rows.ts";
import {
  currentSnapshot,
  folderOf,
  identifierOf,
  type NewFile,
  newSnapshot,
  readReplaced,
  readSnapshot,
  unchanged,
} from "./tables.ts";
import { migrateAll } from "./migration.ts";
import { type IcebergTarget, openWorkspace } from "./workspace.ts";

/** Each batch reads the files of the tables that it changes, so few large batches are cheaper. Their rows take about 1.3 KB per key on disk. */
const KEYS_PER_BATCH = 1_000_000;

/** Attempts to commit a batch while others change its tables: a compaction by Spark, for example. */
const MOST_ATTEMPTS = 5;

const REREAD_AFTER_MS = 500;

/** Table with the last committed batch; every commit replaces its row, so that of two publishers one is refused. */
const POSITION: PublishedTable = {
  name: "publication_position",
  schema: "ops",
  doc: "The last batch that was published to these tables, in one row.",
  key: [],
  rootKey: [],
  columns: columnsOf({
    number: integer("none", "Number of the batch.", "required"),
    id: uuid("none", "ID of the batch.", "required"),
    published_at: timestamptz("none", "Time of its commit.", "required"),
  }),
};

/** Properties of the position table. */
const NUMBER = "person-etl.number";
const ID = "person-etl.id";
/** Hash of the catalog that the tables were migrated to. */
const CATALOG = "person-etl.catalog";
/** `true` from the commit of an erasure until the files with erased rows are deleted. */
const MUST_PURGE = "person-etl.must-purge";
/** ID of the batch after which files were deleted, and milliseconds of that time. */
const CLEANED = "person-etl.cleaned";
const CLEANED_MS = "person-etl.cleaned-ms";
/** Time after which files are looked for again without a new batch: a stalled process may have written some. */
const CLEAN_AGAIN_MS = 24 * 3_600_000;

/** Opens a destination in Iceberg tables; connects at the first use. */
export function openIcebergDestination(target: IcebergTarget): Destination {
  const { name } = target;
  const workspace = openWorkspace(target);
  const { where, staging, copies, catalog, nameOf, storageOf, session, load, loadAll, filesOf, storageTime } =
    workspace;
  const position = nameOf(POSITION);
  let stagedAttempt = "";
  /** Staged files of the attempt by table, content and part. */
  const staged = new Map<string, StagedTable>();
  /** Data files that replace whole tables, by table; they are in the table's folder already. */
  const loadedFiles = new Map<string, NewFile[]>();

  /** Forgets the staged files of the attempt. Call it only while this process has the folder's lock. */
  async function unstage(): Promise<void> {
    staged.clear();
    loadedFiles.clear();
    workspace.keepUploads();
    await rm(staging, { recursive: true, force: true });
  }

  /** Prepares the change of one table: writes its new files. Null if nothing changes. */
  async function prepare(
    { table, replaces, hasRows }: TableChange,
    prefix: string,
  ): Promise<TableUpdate | null> {
    const loaded = await load(table);
    const files = await filesOf(table, loaded, prefix);
    const before = await (replaces === "all" ? readReplaced : readSnapshot)(
      files.storage,
      currentSnapshot(loaded.metadata),
    );
    const stored = before.entries.map(({ data_file: file }) => file);
    refuseOutside(nameOf(table), loaded.metadata, [
      ...before.manifests,
      ...stored.map((file) => file.file_path),
    ]);
    const change = { table: nameOf(table), loaded, before, prefix };
    if (replaces === "all") {
      const removed = new Set(stored.map((file) => file.file_path));
      const parts = [...staged.values()].filter(
        (part) => part.table.name === table.name && part.content === "rows",
      );
      const added = hasRows ? [...(loadedFiles.get(table.name) ?? [])] : [];
      if (hasRows && parts.length > 0) added.push(...(await addStaged(files, parts)));
      // A snapshot whose manifests are lost is replaced, too.
      const isWhole = currentSnapshot(loaded.metadata) === null || before.manifests.length > 0;
      return removed.size + added.length === 0 && isWhole
        ? null
        : newSnapshot(files.storage, { ...change, removed, added });
    }
    if (stored.some(({ content }) => content !== 0)) {
      const text = `${where}: another writer left deletions in ${table.name}, which person-etl doesn't apply. Run \`publish ${name} --full\`.`;
      throw new StopRunError("destination_differs", text);
    }
    const parts = [...staged.values()];
    const { removed, added } = await removeKeys(files, stored, parts);
    const rows = hasRows ? await addStaged(files, parts) : [];
    const all = [...added, ...rows];
    return removed.size + all.length === 0
      ? null
      : newSnapshot(files.storage, { ...change, removed, added: all });
  }

  /** Moves the position, if it is still the one that was read. */
  async function move(at: LoadedTable, batch: StagedBatch, prefix: string): Promise<TableUpdate> {
    const files = await filesOf(POSITION, at, prefix);
    const before = await readReplaced(files.storage, currentSnapshot(at.metadata));
    const added = await write(
      files,
      `SELECT ${batch.number} AS number, '${batch.id}' AS id, current_timestamp AS published_at`,
    );
    const removed = new Set(before.entries.map(({ data_file: file }) => file.file_path));
    const change = { table: position, loaded: at, before, removed, added, prefix };
    const update = await newSnapshot(files.storage, change);
    // Also before the first batch: an attempt that ended may have left files with people who were erased since.
    const purges = batch.erases ? { [MUST_PURGE]: "true" } : {};
    const properties = { [NUMBER]: `${batch.number}`, [ID]: batch.id, ...purges };
    return { ...update, updates: [...update.updates, { action: "set-properties", updates: properties }] };
  }

  /** Refuses a catalog that has applied only some of the changes of a commit. */
  async function refusePartial(updates: readonly TableUpdate[]): Promise<void> {
    for (const { identifier, updates: own } of updates) {
      const { name: table, namespace } = identifier;
      const loaded = await catalog.loadTable({ namespace: namespace.join("."), name: table });
      const snapshot = own.find(({ action }) => action === "add-snapshot")?.["snapshot"] as Snapshot; // as newSnapshot builds it
      const { snapshots = [], "last-sequence-number": sequence = 0 } = loaded?.metadata ?? {};
      // Others may have changed the table since, in a catalog that lists only the current snapshot.
      if (sequence > snapshot["sequence-number"]) continue;
      if (snapshots.some((found) => found["snapshot-id"] === snapshot["snapshot-id"])) continue;
      const text = `${where}: the catalog has applied a part of a batch, without the table ${table}. Its commits of several tables aren't atomic; use another catalog, with \`--full\`.`;
      throw new StopRunError("destination_refused", text);
    }
  }

  async function readPosition(): Promise<Position | null> {
    return positionOf(await catalog.loadTable(position));
  }

  /** Reads the position after a commit; for some seconds, if it was confirmed and a replica may not have it yet. */
  async function readPositionAfter({ id, number }: BatchRef, isConfirmed: boolean): Promise<Position | null> {
    for (let attempt = 1; ; attempt += 1) {
      const at = await readPosition();
      const isThere = at?.id === id || (at?.number ?? 0) > number;
      if (isThere || !isConfirmed || attempt === MOST_ATTEMPTS) return at;
      await delay(REREAD_AFTER_MS);
    }
  }

  async function setProperties(at: LoadedTable, properties: Readonly<Record<string, string>>): Promise<void> {
    const updates = [{ action: "set-properties", updates: properties }];
    await catalog.commit([
      { identifier: identifierOf(position), requirements: unchanged(at.metadata), updates },
    ]);
  }

  return {
    name,
    description: `Iceberg catalog ${target.catalog}, namespaces ${workspace.namespaces.join(" and ")}`,
    fileFormat: "text",
    keysPerBatch: KEYS_PER_BATCH,

    async check() {
      try {
        if (!(await catalog.hasTransactions())) {
          const message = `${target.catalog} can't commit several tables at once, so readers would see parts of a batch.`;
          const hint =
            "Use a catalog with atomic multi-table commits, such as Nessie, Polaris or Lakekeeper.";
          return [{ ok: false, message, hint }];
        }
        const findings = [
          { ok: true, message: `${target.catalog} can be reached and commits several tables at once.` },
        ];
        // The first publication creates the tables.
        const at = await catalog.loadTable(position);
        if (at) {
          await storageOf(at.config).list(folderOf(at.metadata));
          findings.push({ ok: true, message: `The files in ${at.metadata.location} can be listed.` });
        }
        return findings;
      } catch (error) {
        return [{ ok: false, message: messageOf(workspace.explain(error)) }];
      }
    },

    async migrate({ tables, views, dropped }: Catalog) {
      const fingerprint = createHash("sha256")
        .update(JSON.stringify([workspace.namespaces, tables, views.map(textOfView), dropped]))
        .digest("hex");
      const at = await catalog.loadTable(position);
      if (at?.metadata.properties?.[CATALOG] === fingerprint) return;
      if (!(await catalog.hasTransactions())) {
        throw workspace.refused("the catalog can't commit several tables at once", "Use another catalog.");
      }
      await migrateAll(workspace, { tables: [POSITION, ...tables], views, dropped });
      await setProperties(await load(POSITION), { [CATALOG]: fingerprint });
    },

    // The next batches replace all rows; tables that somebody dropped are created again.
    async restart() {
      const at = await catalog.loadTable(position);
      if (at) await setProperties(at, { [CATALOG]: "" });
    },

    position: readPosition,

    async stage({ number, attempt }: BatchRef, files: StagedFiles) {
      await session();
      if (stagedAttempt !== attempt) await unstage();
      stagedAttempt = attempt;
      const key = `${files.table.name}-${files.content}-${files.part}`;
      if (staged.has(key)) return;
      if (files.replaces === "all") {
        const rowFiles = await filesOf(files.table, await load(files.table), prefixOf(number, attempt));
        const added = await addStaged(rowFiles, [files]);
        const { name: table } = files.table;
        loadedFiles.set(table, [...(loadedFiles.get(table) ?? []), ...added]);
        staged.set(key, { ...files, content: "keys", files: [] });
        return;
      }
      const kept = files.files.map((_, index) => join(staging, attempt, `${key}-${index}`));
      await mkdir(join(staging, attempt), { recursive: true, mode: 0o700 });
      for (const [index, file] of files.files.entries()) await keepFile(file, kept[index] ?? file);
      staged.set(key, { ...files, files: kept });
    },

    async commit(batch: StagedBatch) {
      await session();
      if (stagedAttempt !== batch.attempt) await unstage();
      let isSent = false;
      for (let attempt = 1; ; attempt += 1) {
        // Before all tables: a process that moves it later makes this commit fail.
        const at = await load(POSITION);
        const last = positionOf(at)?.id ?? null;
        if (last !== batch.follows) {
          // After a request, the batch may have been committed, whatever was answered.
          if (!isSent) await workspace.removeUploads();
          await unstage();
          return last === batch.id ? "present" : "refused";
        }
        const prefix = prefixOf(batch.number, `${batch.attempt}${randomBytes(4).toString("hex")}`);
        const updates: TableUpdate[] = [];
        for (const change of batch.changes) {
          const update = await prepare(change, prefix);
          if (update) updates.push(update);
        }
        // Last: a catalog that applies only the first ones doesn't have the batch.
        updates.push(await move(at, batch, prefix));
        isSent = true;
        const failure = await catalog.commit(updates).catch((error: unknown) => error);
        const after = await readPositionAfter(batch, failure === undefined);
        if (after?.id === batch.id) {
          if (failure !== undefined) await refusePartial(updates);
          await unstage();
          return "committed";
        }
        if ((after?.number ?? 0) > batch.number) {
          // Another process, which had confirmed this batch, has committed the next one.
          await unstage();
          return "refused";
        }
        if (failure === undefined) {
          const text = `${where}: the catalog confirmed a batch that it doesn't show. Its commits of several tables aren't atomic, or its reads don't see them; use another catalog.`;
          throw new StopRunError("destination_refused", text);
        }
        if (!isConflict(failure) || attempt === MOST_ATTEMPTS) throw failure;
      }
    },

    async finish() {
      const removed = { snapshots: 0, files: 0 };
      const at = await catalog.loadTable(position);
      const last = positionOf(at);
      if (!at || !last) return removed;
      const { properties = {} } = at.metadata;
      const purges = properties[MUST_PURGE] === "true";
      const ageMs = Date.now() - Number(properties[CLEANED_MS] ?? 0);
      if (!purges && properties[CLEANED] === last.id && ageMs < CLEAN_AGAIN_MS) return removed;
      const all = await loadAll();
      refuseShared(all);
      const tables = all.map(({ table }) => table);
      const nowMs = await storageTime(at);
      const waiting = await cleanTables(
        { catalog, storageOf, committed: last.number, nowMs, purges, removed },
        tables,
      );
      if (purges && waiting.length > 0) {
        const text = `${where}: the erasure isn't done yet. ${waiting.length} files, such as ${waiting[0]}, are in no snapshot and may hold erased people, or belong to an unfinished commit. Those of other programs are deleted once they are a day old, those of later batches by later publications. Delete them now if nothing else writes to the tables.`;
        throw new StopRunError("destination_busy", text);
      }
      const now = await catalog.loadTable(position);
      // An erasure that was committed meanwhile is purged after its own publication.
      if (now && positionOf(now)?.id === last.id)
        await setProperties(now, {
          [CLEANED]: last.id,
          [CLEANED_MS]: `${Date.now()}`,
          [MUST_PURGE]: "false",
        });
      return removed;
    },

    async measure(tables: readonly PublishedTable[]) {
      const measures: Measure[] = [];
      for (const table of tables) {
        const loaded = await catalog.loadTable(nameOf(table));
        if (!loaded) {
          measures.push({ table: table.name, rows: 0n, hash: "0" });
          continue;
        }
        const storage = storageOf(loaded.config);
        const { entries } = await readSnapshot(storage, currentSnapshot(loaded.metadata));
        const files = entries.map(({ data_file: file }) => file);
        measures.push(
          await measureFiles({ session: await session(), storage, folder: copies, table }, files),
        );
      }
      return measures;
    },

    explain: workspace.explain,
    close: () => workspace.close(),
  };
}

/** Text of a view, which changes with its definition. */
const textOfView = (view: View) => [view, view.select("spark", (name) => name)];

function positionOf(loaded: LoadedTable | null): Position | null {
  const { [NUMBER]: number, [ID]: id } = loaded?.metadata.properties ?? {};
  return number && id ? { number: Number(number), id } : null;
}
