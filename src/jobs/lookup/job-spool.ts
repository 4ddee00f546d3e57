import { createHash } from "node:crypto";
import { hostname } from "node:os";
import { join } from "node:path";
import type { Config } from "../../config/config.ts";
import type { Db } from "../../load/db/db.ts";
import { readIdentity } from "../../load/db/identity.ts";
import { leaveSpoolPlace, useSpoolPlace } from "../../load/erasure/spool-places.ts";
import { readUnexpiredHolders } from "../../load/runs/job-lock.ts";
import { makeDiskId } from "../../spool/disk-id.ts";
import { namesIn } from "../../spool/folder-content.ts";
import { moveSpool } from "../../spool/move-spool.ts";
import { explainSpoolFailure, openSpool, type Spool } from "../../spool/spool.ts";
import { surveySpool } from "../../spool/survey-spool.ts";
import type { RunRef } from "../../load/runs/run-ref.ts";
import { withoutEnded } from "../hold-job.ts";

/** Returns the folder of all received answers that are not loaded yet. */
export function spoolRoot({ dataDir }: Pick<Config, "dataDir">): string {
  return join(dataDir, "spool");
}

/** Returns the name of a warehouse's folder, `DATA-DATABASE`; null before its tables exist. Copies of a database share the first part. */
export async function spoolNameOf(db: Db): Promise<string | null> {
  const identity = await readIdentity(db);
  return identity && `${shortHash(identity.createdAt, 12)}-${shortHash(identity.database, 8)}`;
}

function shortHash(text: string, length: number): string {
  return createHash("sha256").update(text).digest("hex").slice(0, length);
}

/** First part of the name of a folder, which is the whole name in version 2. */
const dataOf = (warehouse: string) => warehouse.split("-")[0] ?? warehouse;

/** `own`; `copy` of a database with the same data; `other` for other data. */
export function spoolKind(warehouse: string, own: string | null): "own" | "copy" | "other" {
  if (own === null || dataOf(warehouse) !== dataOf(own)) return "other";
  return warehouse === own || warehouse === dataOf(own) ? "own" : "copy";
}

/** Moves answers that were received for copies of this database, so that its next run loads them; returns their number. */
export async function takeOverAnswers(config: Pick<Config, "dataDir">, db: Db): Promise<number> {
  const root = spoolRoot(config);
  const own = await spoolNameOf(db);
  let answers = 0;
  for (const folder of await namesIn(root)) {
    if (own !== null && spoolKind(folder, own) === "copy") answers += await moveSpool(root, folder, own);
  }
  return answers;
}

/** Spool with the name of its warehouse. */
export interface JobSpool {
  readonly spool: Spool;
  /** See {@link spoolNameOf}: configurations for several warehouses may share a data_dir. */
  readonly warehouseName: string;
  /** ID of the disk. */
  readonly disk: string;
}

/** Opens the spool of a job's run, which holds its lock, and records that answers may be there. */
export async function openJobSpool(
  config: Pick<Config, "dataDir" | "spool">,
  db: Db,
  run: RunRef,
): Promise<JobSpool> {
  const { job, shard } = run;
  const warehouseName = await spoolNameOf(db);
  if (warehouseName === null) throw new Error("The warehouse has no tables yet.");
  await moveSpool(spoolRoot(config), dataOf(warehouseName), warehouseName);
  const spool = await openSpool({
    root: spoolRoot(config),
    owner: { warehouse: warehouseName, job, shard },
    maxBytes: config.spool.maxBytes,
  });
  const disk = await makeDiskId(config.dataDir).catch((error: unknown) => {
    throw explainSpoolFailure(error, config.dataDir);
  });
  await useSpoolPlace(db, run, { disk, host: hostname(), folder: spoolRoot(config) });
  return { spool, warehouseName, disk };
}

/** Records that no answer is left, if so. */
export async function closeJobSpool(db: Db, run: RunRef, { spool, disk }: JobSpool): Promise<void> {
  if (spool.calls === 0) await leaveSpoolPlace(db, run, disk);
}

/**
 * Opens the spools of other jobs and shards that aren't running, such as renamed ones, and ones whose last run was killed: any lookup
 * loads their answers, which it could pay for again otherwise.
 */
export async function openOtherSpools(
  config: Pick<Config, "dataDir" | "spool">,
  db: Db,
  { spool, warehouseName: warehouse }: JobSpool,
): Promise<readonly Spool[]> {
  const root = spoolRoot(config);
  const { contents } = await surveySpool(root);
  const running = await withoutEnded(await readUnexpiredHolders(db));
  const isRunning = (owner: Pick<RunRef, "job" | "shard">) =>
    running.some(({ job, shard }) => job === owner.job && shard === owner.shard);
  const others = contents.filter(
    (content) => content.warehouse === warehouse && content.folder !== spool.folder && !isRunning(content),
  );
  return Promise.all(others.map((owner) => openSpool({ root, owner, maxBytes: config.spool.maxBytes })));
}
