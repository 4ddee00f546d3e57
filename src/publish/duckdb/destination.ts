import { createHash } from "node:crypto";
import { constants, copyFile, mkdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { FixConfigurationError, JobLockedError } from "../../errors.ts";
import { lockFile } from "../../process-state.ts";
import type {
  BatchRef,
  Catalog,
  Destination,
  Measure,
  PublishedTable,
  StagedBatch,
  StagedFiles,
} from "../destination.ts";
import {
  checkFiles,
  exists,
  explainDuckDb,
  findFile,
  inUse,
  keepFile,
  NOT_OURS,
  readIdentity,
  refusedFile,
  refuseForeign,
  releaseFile,
  replaceFile,
} from "./files.ts";
import { copyDatabase, type DuckSession, openDuckDb, quoteText, type TextRow } from "./session.ts";
import * as statements from "./statements.ts";
import { collectGarbage } from "../../garbage.ts";

/** A DuckDB file that analysts open. */
interface DuckDbTarget {
  readonly name: string;
  /** File for readers, replaced by each publication. */
  readonly path: string;
  /** Folder of the working file: batches can't be applied to `path`, since any open session locks it. */
  readonly folder: string;
  readonly schemas: statements.SchemaNames;
}

/** Each batch reads the changed tables whole, so it has the keys of an ordinary night, in all tables. Their rows take about 1.3 KB per key on disk. */
const KEYS_PER_BATCH = 700_000;

/** Growth of the working file, as a factor, after which it is rewritten without deleted rows, which checkpoints leave in it. */
const MOST_GROWTH = 1.5;

/** Opens a DuckDB destination; touches no file before the first use. */
export function openDuckDbDestination(target: DuckDbTarget): Destination {
  const { name, path, folder, schemas } = target;
  const own = join(folder, `${name}.duckdb`);
  const staging = join(folder, `${name}.staged`);
  const temporary = join(folder, `${name}.tmp`);
  /** Attempt under way. */
  let stagedAttempt = "";
  /** Its files, by table, content and part. Those of whole tables are loaded already. */
  const staged = new Map<string, statements.StagedTable>();
  let opened: Promise<DuckSession> | null = null;
  /** Lock on all working files. DuckDB's own ends when a copy of the file is made, and between two sessions. */
  let lock: Awaited<ReturnType<typeof lockFile>> = null;

  /** Opens the working file; where there is none, one that equals the file for readers unless it shall be empty. */
  async function openOwn(isEmpty = false): Promise<DuckSession> {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    lock ??= await lockFile(join(folder, `${name}.lock`));
    if (!lock) throw inUse(name, path);
    // A killed process leaves what it spilled.
    await rm(temporary, { recursive: true, force: true });
    const isOld = await exists(own);
    // A log must not be replayed into another file, and a copy may hold people who were erased since.
    if (!isOld) await removeOwn();
    const file = isOld || isEmpty ? null : await findFile(name, path);
    const isRestored = file !== null && (await exists(file));
    if (isRestored) {
      await refuseForeign(name, file);
      // A crash must leave no half of a file behind.
      await copyFile(file, `${own}.new`, constants.COPYFILE_EXCL);
      await rename(`${own}.new`, own);
    }
    const session = await openDuckDb(own, temporary);
    try {
      if (isRestored && !(await statements.hasState(session))) throw refusedFile(name, NOT_OURS);
      await session.transaction(() => statements.prepare(session));
      if (isOld && positionOf(await statements.readState(session)) === null) {
        // Freed blocks of a first attempt may hold people who were erased since.
        session.close();
        await removeOwn();
        return await openOwn(true);
      }
      // Only the process with the file open may remove the remains of an attempt.
      await unstage(session);
      return session;
    } catch (error) {
      session.close();
      if (isRestored) await rm(own, { force: true });
      throw error;
    }
  }

  async function removeOwn(): Promise<void> {
    for (const file of [own, `${own}.wal`]) await rm(file, { force: true });
    await removeCopy();
  }

  async function removeCopy(): Promise<void> {
    for (const file of [`${own}.new`, `${own}.new.wal`]) await rm(file, { force: true });
  }

  /** Session on the working file, opened at the first use. */
  function session(): Promise<DuckSession> {
    opened ??= openOwn().catch((error: unknown) => {
      opened = null;
      throw error;
    });
    return opened;
  }

  async function unstage(session: DuckSession): Promise<void> {
    staged.clear();
    await rm(staging, { recursive: true, force: true });
    for (const table of await statements.loadedTables(session)) {
      await session.transaction(() => session.run(`DROP TABLE ${table}`));
    }
  }

  /** Runs statements in one transaction, with memory for lines of this size. */
  async function apply(list: readonly string[], lineBytes = 0): Promise<void> {
    const db = await session();
    await db.makeRoom(lineBytes);
    await db.transaction(async () => {
      for (const statement of list) await db.run(statement);
    });
  }

  /**
   * Changes tables in several transactions, since marks of deleted rows take memory. An interrupted batch is repeated and replaces the same
   * keys; readers see the file only after the last step.
   */
  async function change(
    { id, changes }: StagedBatch,
    files: readonly statements.StagedTable[],
  ): Promise<void> {
    const db = await session();
    await apply([`UPDATE person_etl.state SET applying = ${quoteText(id)}`]);
    for (const change of changes.filter(({ replaces }) => replaces === "keys")) {
      const deletion = statements.deleteStatement(change, files, schemas);
      await db.scan(schemas[change.table.schema], change.table.name, (range) =>
        apply([`${deletion} AND ${range}`]),
      );
    }
    await db.checkpoint();
    const lineBytes = Math.max(0, ...files.map(({ longestLineBytes }) => longestLineBytes));
    for (const change of changes) {
      const isWhole = change.replaces === "all";
      const list = isWhole
        ? statements.swapStatements(change, schemas)
        : statements.insertStatements(change, files, schemas);
      await apply(list, lineBytes);
    }
  }

  /** Keeps the files of the caller until the commit. */
  async function keep(key: string, staged: StagedFiles): Promise<statements.StagedTable> {
    await mkdir(staging, { recursive: true, mode: 0o700 });
    const kept = staged.files.map((_, index) => join(staging, `${key}-${index}`));
    await Promise.all(staged.files.map((file, index) => keepFile(file, kept[index] ?? file)));
    return { ...staged, files: kept };
  }

  async function closeOwn(): Promise<void> {
    const last = opened;
    opened = null;
    (await last?.catch(() => null))?.close();
  }

  async function close(): Promise<void> {
    await closeOwn();
    lock?.release();
    lock = null;
  }

  /** Rewrites the working file without deleted rows and freed blocks, which keep their values. */
  async function purge(): Promise<void> {
    const rewritten = `${own}.new`;
    await removeCopy();
    try {
      // A session that has just committed, and garbage, hold as much memory as the copy takes.
      await closeOwn();
      collectGarbage();
      const db = await session();
      // The file's log is removed just before the copy takes its place.
      await db.checkpoint();
      await copyDatabase(db, rewritten);
      await closeOwn();
      // The log isn't renamed with the file.
      const copy = await openDuckDb(rewritten, temporary);
      await copy.checkpoint().finally(() => copy.close());
      await replaceFile(rewritten, own);
    } finally {
      await removeCopy();
    }
  }

  return {
    name,
    description: `DuckDB file ${path}`,
    fileFormat: "text",
    keysPerBatch: KEYS_PER_BATCH,

    check: () => checkFiles(name, path),

    async migrate(catalog: Catalog) {
      const db = await session();
      const fingerprint = createHash("sha256").update(describe(catalog)).digest("hex");
      if ((await statements.readState(db))["catalog"] === fingerprint) return;
      await apply([
        ...statements.catalogStatements(catalog, schemas),
        `UPDATE person_etl.state SET catalog = ${quoteText(fingerprint)}, released_id = NULL`,
      ]);
    },

    async restart() {
      await session().catch((error: unknown) => {
        // A damaged working file is replaced; neither one that another process has open, nor a file of somebody else.
        if (error instanceof FixConfigurationError) throw error;
        if (explainDuckDb(error, name, path) instanceof JobLockedError) throw error;
      });
      await closeOwn();
      await removeOwn();
      opened = openOwn(true);
      await opened;
    },

    async position() {
      return positionOf(await statements.readState(await session()));
    },

    async stage({ attempt }: BatchRef, files: StagedFiles) {
      const db = await session();
      if (stagedAttempt !== attempt) await unstage(db);
      stagedAttempt = attempt;
      const key = `${files.table.name}-${files.content}-${files.part}`;
      if (staged.has(key)) return;
      if (files.replaces === "keys") {
        staged.set(key, await keep(key, files));
      } else {
        await apply(statements.loadStatements(files, schemas), files.longestLineBytes);
        staged.set(key, files);
      }
    },

    async commit(batch: StagedBatch) {
      const db = await session();
      const files = stagedAttempt === batch.attempt ? [...staged.values()] : [];
      const state = await statements.readState(db);
      const at = positionOf(state)?.id ?? null;
      // Rows that another batch deleted and never inserted again would be missing.
      const isPartlyOther = state["applying"] !== null && state["applying"] !== batch.id;
      if (at !== batch.follows || isPartlyOther) {
        await unstage(db);
        return at === batch.id ? "present" : "refused";
      }
      // Before the first batch there is nothing to purge.
      const purges = batch.erases && at !== null;
      await change(batch, files);
      await apply([statements.positionStatement(batch, purges)]);
      await unstage(db);
      return "committed";
    },

    async finish() {
      const state = await statements.readState(await session());
      const file = await findFile(name, path);
      // A file that was restored, replaced or edited may contain people who were erased since. An edit may still be in its log.
      const isReleased = state["released_id"] === `${state["id"]} ${await readIdentity(file)}`;
      if (state["id"] === null || (isReleased && !(await exists(`${file}.wal`)))) return;
      const rewritten = Number(state["rewritten_bytes"] ?? Infinity);
      const isRewritten = state["must_purge"] === "true" || (await bytesOf(own)) > MOST_GROWTH * rewritten;
      if (isRewritten) await purge();
      const db = await session();
      await db.checkpoint();
      const released = await releaseFile(own, file);
      const bytes = isRewritten || rewritten === Infinity ? await bytesOf(own) : rewritten;
      await db.run(
        `UPDATE person_etl.state SET released_id = id || ${quoteText(` ${released}`)}, must_purge = false, rewritten_bytes = ${bytes}`,
      );
    },

    async measure(tables: readonly PublishedTable[]) {
      const db = await session();
      const measures: Measure[] = [];
      for (const table of tables) {
        let [rows, hash] = [0n, 0n];
        await db.scan(schemas[table.schema], table.name, async (range) => {
          const query = statements.measureQuery(table, schemas, range);
          // In a transaction, which gets more memory for long rows.
          const [row] = await db.transaction(() => db.rows(query));
          rows += BigInt(row?.["rows"] ?? "0");
          hash += BigInt(row?.["hash"] ?? "0");
        });
        measures.push({ table: table.name, rows, hash: `${hash}` });
      }
      return measures;
    },

    explain: (error) => explainDuckDb(error, name, path),
    close,
  };
}

async function bytesOf(file: string): Promise<number> {
  return (await stat(file)).size;
}

function positionOf(state: TextRow): { readonly number: number; readonly id: string } | null {
  const { number, id } = state;
  return number && id ? { number: Number(number), id } : null;
}

/** Text form of a catalog, from which the file's tables, comments and views are created. */
function describe({ tables, views, dropped }: Catalog): string {
  return JSON.stringify([
    tables,
    dropped,
    views.map((view) => ({ ...view, text: view.select("duckdb", (name) => name) })),
  ]);
}
