import { createHash } from "node:crypto";
import { join } from "node:path";
import type { Config } from "../../config/config.ts";
import type { Db } from "../../load/db/db.ts";
import { readIdentity } from "../../load/db/identity.ts";
import { openSpool, type Spool } from "../../spool/spool.ts";
import { surveySpool } from "../../spool/survey-spool.ts";
import type { RunRef } from "../../load/runs/run-ref.ts";

/** Returns the folder of all received answers that are not loaded yet. */
export function spoolRoot({ dataDir }: Pick<Config, "dataDir">): string {
  return join(dataDir, "spool");
}

/** Returns the short hash of a warehouse's identity; null before its tables exist. */
export async function spoolNameOf(db: Db): Promise<string | null> {
  const identity = await readIdentity(db);
  return identity === null
    ? null
    : createHash("sha256").update(identity.createdAt).digest("hex").slice(0, 12);
}

/** Spool with the name of its warehouse. */
export interface JobSpool {
  readonly spool: Spool;
  /** Short hash of the warehouse's identity: configurations for several warehouses may share a data_dir. */
  readonly warehouseName: string;
}

/** Opens the spool of a job's run. Call it while the run holds its lock. */
export async function openJobSpool(
  config: Pick<Config, "dataDir" | "spool">,
  db: Db,
  { job, shard }: Pick<RunRef, "job" | "shard">,
): Promise<JobSpool> {
  const warehouseName = await spoolNameOf(db);
  if (warehouseName === null) throw new Error("The warehouse has no tables yet.");
  const spool = await openSpool({
    root: spoolRoot(config),
    owner: { warehouse: warehouseName, job, shard },
    maxBytes: config.spool.maxBytes,
  });
  return { spool, warehouseName };
}

/** Opens the spools of jobs that are no longer configured, such as renamed ones: any lookup loads their answers. */
export async function openFormerSpools(
  config: Pick<Config, "dataDir" | "spool" | "jobs">,
  warehouse: string,
): Promise<readonly Spool[]> {
  const root = spoolRoot(config);
  const { contents } = await surveySpool(root);
  const former = contents.filter(
    (content) => content.warehouse === warehouse && !config.jobs.some(({ name }) => name === content.job),
  );
  return Promise.all(
    former.map(({ job, shard }) => openSpool({ root, owner: { warehouse, job, shard }, maxBytes: config.spool.maxBytes })),
  );
}
