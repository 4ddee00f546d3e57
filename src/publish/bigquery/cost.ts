import type { Client } from "../../bigquery/client.ts";
import { type NamedProject, orMissing } from "../../bigquery/failure.ts";
import { FixConfigurationError } from "../../errors.ts";
import type { Catalog, PublishedTable, StagedBatch } from "../destination.ts";
import type { DatasetNames } from "./datasets.ts";
import { stagedTable } from "./stage.ts";

/** Bytes of a table that a batch changes, as counted by BigQuery. */
interface ChangedTable {
  readonly stored: number;
  /** Bytes stored in the key columns. */
  readonly storedKeys: number;
  readonly stagedKeys: number;
  readonly stagedRows: number;
}

/** Each batch bills all bytes of the tables it changes, so few large batches are cheaper. Files of a batch take about 3 GB of `data_dir`. */
export const KEYS_PER_BATCH = 20_000_000;

/** Minimum billed per statement and table. */
const MINIMUM_BYTES = 10 * 1024 * 1024;
const TIB = 1024 ** 4;
/** List price of on-demand queries in the US, per TiB. */
const USD_PER_TIB = 6.25;

/**
 * Bytes that one batch bills. A DELETE bills the columns that it reads and all columns of the table that it changes; an INSERT bills
 * the staged rows; and the position is updated.
 */
export function batchBytes(tables: readonly ChangedTable[]): number {
  const billed = (bytes: number) => Math.max(MINIMUM_BYTES, bytes);
  return tables.reduce((sum, { stored, storedKeys, stagedKeys, stagedRows }) => {
    const deletion = billed(stored + storedKeys) + billed(stagedKeys);
    return sum + deletion + billed(stagedRows) + MINIMUM_BYTES;
  }, MINIMUM_BYTES);
}

/** Price of bytes at list price. */
export function priceOf(bytes: number): number {
  return (bytes / TIB) * USD_PER_TIB;
}

/** Bytes as `1.5 GB` or `50 MB`. */
export function bytesText(bytes: number): string {
  const gigabytes = bytes / 1024 ** 3;
  return gigabytes < 0.95 ? `${Math.round(gigabytes * 1024)} MB` : `${gigabytes.toFixed(1)} GB`;
}

/** Approximate bytes of a key column: a length of two bytes and a text like a PID. */
const KEY_BYTES = 38;

interface TableSize {
  readonly numBytes?: string;
  readonly numRows?: string;
}

/** Size of a table; null if it doesn't exist. */
export function sizeOf(client: Client, dataset: string, table: string): Promise<TableSize | null> {
  return orMissing(client.send<TableSize>({ method: "GET", path: `/datasets/${dataset}/tables/${table}` }));
}

/** Bytes that a change of any of a table's rows bills besides the rows themselves. */
async function storedTable(
  client: Client,
  names: DatasetNames,
  table: PublishedTable,
): Promise<ChangedTable> {
  const size = await sizeOf(client, names[table.schema], table.name);
  const storedKeys = Number(size?.numRows ?? 0) * table.rootKey.length * KEY_BYTES;
  return { stored: Number(size?.numBytes ?? 0), storedKeys, stagedKeys: 0, stagedRows: 0 };
}

/** Bytes that a batch bills now if some rows of these tables change. */
export async function estimateBatch(
  client: Client,
  names: DatasetNames,
  tables: readonly PublishedTable[],
): Promise<number> {
  return batchBytes(await Promise.all(tables.map((table) => storedTable(client, names, table))));
}

/** By default a publication may bill this many times what its batches would, if each changed all tables. */
export const DEFAULT_FACTOR = 3;

/** Datasets of a destination, with the limit of what a publication bills. */
export interface LimitContext {
  readonly client: Client;
  readonly names: DatasetNames;
  readonly where: NamedProject;
  /** Bytes; null for {@link DEFAULT_FACTOR} times the estimate. */
  readonly maximumBytesBilled: number | null;
}

/** Limits the bytes that one publication bills. */
export type BillingLimit = ReturnType<typeof createBillingLimit>;

export function createBillingLimit({ client, names, where, maximumBytesBilled }: LimitContext) {
  let published: Catalog | null = null;
  let limit: number | null = null;
  let billed = 0;
  let batches = 0;

  async function findLimit(): Promise<number> {
    // A batch outside of a publication is part of none.
    if (published === null) return maximumBytesBilled ?? Number.MAX_SAFE_INTEGER;
    limit ??= maximumBytesBilled ?? DEFAULT_FACTOR * (await estimateBatch(client, names, published.tables));
    return limit;
  }

  /** The default grows by each batch after the first, and by staged rows: what they are added to isn't known before. */
  async function limitWith(stagedRows: number): Promise<number> {
    const before = await findLimit();
    if (published === null || maximumBytesBilled !== null) return before;
    batches += 1;
    const again = batches === 1 ? 0 : await estimateBatch(client, names, published.tables);
    limit = before + DEFAULT_FACTOR * (again + stagedRows);
    return limit;
  }

  async function changedTable(
    batch: StagedBatch,
    { table, replaces, hasRows }: StagedBatch["changes"][number],
  ) {
    const staged = async (content: "keys" | "rows") =>
      Number((await sizeOf(client, names.staging, stagedTable(names, batch, table, content)))?.numBytes ?? 0);
    const stagedRows = hasRows ? await staged("rows") : 0;
    // TRUNCATE is free.
    if (replaces === "all") return { stored: 0, storedKeys: 0, stagedKeys: 0, stagedRows };
    return { ...(await storedTable(client, names, table)), stagedKeys: await staged("keys"), stagedRows };
  }

  function refuseAbove(most: number, bytes: number, what: string): void {
    if (billed + bytes <= most) return;
    const setting = `${where.path}.maximum_bytes_billed`;
    const before = billed === 0 ? "" : ` after ${bytesText(billed)} of this publication`;
    const message = `${what} would bill ${bytesText(bytes)}${before}, more than its limit of ${bytesText(most)}`;
    const hint =
      "raise the limit, or publish everything again by --full, which bills only the rows; the changes stay queued";
    throw new FixConfigurationError(
      "publication_over_limit",
      `${setting}: ${message}. Nothing of it was changed; ${hint}.`,
      [{ path: setting, message, hint }],
    );
  }

  return {
    /** Starts a publication. */
    begin(catalog: Catalog): void {
      published = catalog;
      limit = null;
      billed = 0;
      batches = 0;
    },
    /** Bytes that it may still bill. */
    left: async () => Math.max(MINIMUM_BYTES, (await findLimit()) - billed),
    /** Estimates a staged batch; throws if it would exceed the limit. */
    async reserve(batch: StagedBatch): Promise<number> {
      const tables = await Promise.all(batch.changes.map((change) => changedTable(batch, change)));
      const bytes = batchBytes(tables);
      const stagedRows = tables.reduce((sum, table) => sum + table.stagedRows, 0);
      refuseAbove(await limitWith(stagedRows), bytes, "the next batch");
      return bytes;
    },
    /** Estimates a comparison of tables; throws if it would exceed the limit. */
    async reserveComparison(tables: readonly PublishedTable[]): Promise<number> {
      const sizes = await Promise.all(tables.map((table) => storedTable(client, names, table)));
      const bytes = sizes.reduce((sum, { stored }) => sum + Math.max(MINIMUM_BYTES, stored), 0);
      refuseAbove(await findLimit(), bytes, "a comparison");
      return bytes;
    },
    /** Counts billed bytes; throws if as many again would exceed the limit. */
    async addFailed(bytes: number): Promise<void> {
      billed += bytes;
      refuseAbove(await findLimit(), bytes, "another attempt");
    },
    add(bytes: number): void {
      billed += bytes;
    },
  };
}
