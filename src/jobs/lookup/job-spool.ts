import type { Db } from "../../load/db/db.ts";
import { readIdentity } from "../../load/db/identity.ts";
import { createHash } from "node:crypto";
import { join } from "node:path";
import type { Config } from "../../config/config.ts";
import type { RunRef } from "../../load/lookup.ts";
import { openSpool, type Spool } from "../../spool/spool.ts";

/** The folder in which all answers wait that are not loaded yet. */
export function spoolRoot({ dataDir }: Pick<Config, "dataDir">): string {
  return join(dataDir, "spool");
}

/** What a warehouse is called in the spool: configurations for several warehouses may share a data_dir. */
export async function spoolNameOf(db: Db): Promise<string | null> {
  const identity = await readIdentity(db);
  return identity === null ? null : createHash("sha256").update(identity).digest("hex").slice(0, 12);
}

/** Opens the spool of a job's run. Call it while the run holds its job. */
export async function openJobSpool(
  config: Pick<Config, "dataDir" | "spool">,
  db: Db,
  { job, shard }: Pick<RunRef, "job" | "shard">,
): Promise<Spool> {
  const name = await spoolNameOf(db);
  if (name === null) throw new Error("The warehouse has no tables yet.");
  return await openSpool({
    root: spoolRoot(config),
    owner: { warehouse: name, job, shard },
    maxBytes: config.spool.maxBytes,
  });
}
