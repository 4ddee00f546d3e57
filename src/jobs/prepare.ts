import { writeServiceHost } from "../load/db/identity.ts";
import { dropTombstones } from "../load/erasure/remove.ts";
import { checkErasureKey } from "../load/erasure/requests.ts";
import type { JobConfig } from "../config/config.ts";
import { type EraseServices, finishErasures } from "./erase/erase.ts";
import { takeOverExpired } from "./hold-job.ts";
import { linkInputs } from "./link-inputs.ts";
import { migrateVerified } from "./verify-inputs.ts";
import { reportWaiting } from "./lookup/waiting-answers.ts";
import { serviceHostOf } from "./service-host.ts";

/** Prepares a run before its first call: verifies inputs and service, migrates, finishes erasures. */
export async function prepareRun(services: EraseServices, jobs: readonly JobConfig[]): Promise<void> {
  const { config, db, log } = services;
  const migrations = await migrateVerified(config, db, jobs);
  if (migrations.length > 0) log.info({ migrations }, "migrated");
  await linkInputs(config, db, jobs);
  await checkErasureKey(db);
  await takeOverExpired(services);
  await finishErasures(services);
  await dropTombstones(db, config.privacy.erasureNoticeMs);
  await writeServiceHost(db, serviceHostOf(config), { replace: false });
  for (const { path, message, hint } of (await reportWaiting(config, db)).remarks) {
    log.warn({ folder: path, message, hint }, "answers_left_behind");
  }
}
