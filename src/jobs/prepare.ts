import type { Config, JobConfig } from "../config/config.ts";
import type { Db } from "../load/db/db.ts";
import { writeServiceHost } from "../load/db/identity.ts";
import { renewLinkView } from "../load/db/link-views.ts";
import { dropTombstones } from "../load/erasure/remove.ts";
import { checkErasureKey } from "../load/erasure/requests.ts";
import { describeKey } from "../load/inputs/describe-key.ts";
import { linkView, linkViewName } from "../schemas/views/link-input.ts";
import { type EraseServices, finishErasures } from "./erase/erase.ts";
import { takeOverExpired } from "./hold-job.ts";
import { reportWaiting } from "./lookup/waiting-answers.ts";
import { serviceHostOf } from "./service-host.ts";
import { migrateVerified, sourcesOf } from "./verify-inputs.ts";

/**
 * Creates a view of each input that the jobs read, with the types of its key. Inputs whose names are too long for a view have none;
 * views of former inputs stay, because other objects may depend on them.
 */
async function linkInputs(config: Config, db: Db, jobs: readonly JobConfig[]): Promise<void> {
  for (const source of sourcesOf(config, jobs)) {
    if (source.isPush) continue;
    const input = await source.open();
    if (linkViewName(input.name) === null) continue;
    await renewLinkView({ db, input: input.name }, linkView(input.name, await describeKey(db, input)));
  }
}

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
