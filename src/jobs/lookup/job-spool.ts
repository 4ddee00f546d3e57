import { createHash } from "node:crypto";
import { hostname } from "node:os";
import { join } from "node:path";
import type { Config } from "../../config/config.ts";
import type { Problem } from "../../errors.ts";
import { countText } from "../../figures.ts";
import { withoutEnded } from "../hold-job.ts";
import { AFTER_A_MOVE } from "../publish/publication.ts";
import type { Db } from "../../load/db/db.ts";
import { readIdentity } from "../../load/db/identity.ts";
import { leaveSpoolPlace, useSpoolPlace } from "../../load/erasure/requests.ts";
import type { RunRef } from "../../load/runs/fence.ts";
import { readHolders } from "../../load/runs/lock.ts";
import { makeDiskId, moveSpool, namesIn, type SpoolContent, surveySpool } from "../../spool/files.ts";
import { explainSpoolFailure, openSpool, type Spool } from "../../spool/spool.ts";

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

/** Paths of the folders with what was received for this warehouse. */
export async function ownSpoolFolders(config: Pick<Config, "dataDir">, db: Db): Promise<readonly string[]> {
  const root = spoolRoot(config);
  const own = await spoolNameOf(db);
  const names = await namesIn(root);
  return names.filter((name) => spoolKind(name, own) === "own").map((name) => join(root, name));
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

export interface JobSpool {
  readonly spool: Spool;
  /** See {@link spoolNameOf}: configurations for several warehouses may share a data_dir. */
  readonly warehouseName: string;
  readonly disk: string;
}

/** Opens the spool of a job's run, which holds its lock, and records that answers may be there. */
export async function openJobSpool(
  config: Pick<Config, "dataDir" | "spoolBytes">,
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
    maxBytes: config.spoolBytes,
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
  config: Pick<Config, "dataDir" | "spoolBytes">,
  db: Db,
  { spool, warehouseName: warehouse }: JobSpool,
): Promise<readonly Spool[]> {
  const root = spoolRoot(config);
  const { contents } = await surveySpool(root);
  const running = await withoutEnded(await readHolders(db));
  const isRunning = (owner: Pick<RunRef, "job" | "shard">) =>
    running.some(({ job, shard }) => job === owner.job && shard === owner.shard);
  const others = contents.filter(
    (content) => content.warehouse === warehouse && content.folder !== spool.folder && !isRunning(content),
  );
  return Promise.all(others.map((owner) => openSpool({ root, owner, maxBytes: config.spoolBytes })));
}

/** Received answers of one job that are not loaded yet. */
export interface SpooledAnswers {
  readonly calls: number;
  readonly bytes: number;
}

/** Contents of a data_dir's spool, from the point of view of a configuration. */
interface SpoolReport {
  /** By enabled job, whose next run loads them. */
  readonly byJob: ReadonlyMap<string, SpooledAnswers>;
  /** Answers in quarantine, and those that no run of this configuration loads. */
  readonly remarks: readonly Problem[];
}

/** Lists the spool's answers; changes nothing. @param db null if the warehouse's identity can't be read */
export async function reportSpooled(
  config: Pick<Config, "dataDir" | "jobs">,
  db: Db | null,
): Promise<SpoolReport> {
  const { contents, quarantined } = await surveySpool(spoolRoot(config));
  if (contents.length + quarantined.length === 0) return { byJob: new Map(), remarks: [] };
  const name = db && (await spoolNameOf(db));
  const byJob = new Map<string, SpooledAnswers>();
  const remarks: Problem[] = [];
  for (const content of contents) {
    const remark = remarkOn(content, config, { isKnown: db !== null, name });
    if (remark) remarks.push(remark);
    else {
      const { calls, bytes } = byJob.get(content.job) ?? { calls: 0, bytes: 0 };
      byJob.set(content.job, { calls: calls + content.calls, bytes: bytes + content.bytes });
    }
  }
  for (const { job, folder, files } of quarantined) {
    remarks.push({
      path: folder,
      message: `${countText(files, "received response")} of ${job} can't be loaded and ${files === 1 ? "is" : "are"} in quarantine`,
      hint: "`rejects list` has their records; remove the folder when the files are no longer needed",
    });
  }
  return { byJob, remarks };
}

/** Reason why no run of this configuration loads these answers; null if one does. */
function remarkOn(
  { folder, job, calls, warehouse }: SpoolContent,
  config: Pick<Config, "jobs">,
  present: { readonly isKnown: boolean; readonly name: string | null },
): Problem | null {
  const answers = `${countText(calls, "received response")} of ${job}`;
  const giveUp = "or remove the folder to discard the paid responses";
  const kind = present.isKnown ? spoolKind(warehouse, present.name) : "own";
  if (kind !== "own") {
    const owner =
      kind === "copy" ? "another copy of this database" : "a warehouse other than the configured one";
    const load = `run with that ${kind === "copy" ? "database" : "warehouse"}'s configuration to load ${calls === 1 ? "it" : "them"}, ${giveUp}`;
    return {
      path: folder,
      message: `${answers} ${calls === 1 ? "belongs" : "belong"} to ${owner}`,
      hint: kind === "copy" ? `${load}. ${AFTER_A_MOVE}` : load,
    };
  }
  const known = config.jobs.find(({ name }) => name === job);
  if (known?.enabled) return null;
  return {
    path: folder,
    message: `${answers} ${calls === 1 ? "waits" : "wait"} for a job that is ${known ? "disabled" : "no longer configured"}`,
    hint: `run any resolve, validate_emails or enrich job to load ${calls === 1 ? "it" : "them"}, ${giveUp}`,
  };
}
