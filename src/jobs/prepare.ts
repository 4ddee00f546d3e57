import { writeServiceHost } from "../load/db/identity.ts";
import { migrate } from "../load/db/setup.ts";
import { dropTombstones } from "../load/erasure/erase-people.ts";
import { checkErasureKey } from "../load/erasure/keep-out-sql.ts";
import type { JobConfig } from "../config/config.ts";
import { type EraseServices, finishErasures } from "./erase/erase.ts";
import { throwProblems } from "./read-source.ts";
import { inspectInputs, verifyAfterMigrating } from "./verify-inputs.ts";
import { reportWaiting } from "./lookup/waiting-answers.ts";
import { checkServiceHost, serviceHostOf } from "./service-host.ts";

/**
 * Everything before the first call: verifies inputs and service, then creates or upgrades the tables. Only queries over
 * our own tables, which may not be there yet, are verified after that.
 */
export async function prepareRun(services: EraseServices, jobs: readonly JobConfig[]): Promise<void> {
  const { config, db, log } = services;
  const { problems, afterMigrating } = await inspectInputs(config, db, jobs);
  throwProblems(problems);
  await checkServiceHost(config, db);
  const migrations = await migrate(db);
  if (migrations.length > 0) log.info({ migrations }, "migrated");
  await verifyAfterMigrating(db, afterMigrating);
  await checkErasureKey(db);
  await finishErasures(services);
  await dropTombstones(db, config.privacy.erasureNoticeMs);
  await writeServiceHost(db, serviceHostOf(config), { replace: false });
  for (const { path, message, hint } of (await reportWaiting(config, db)).remarks) {
    log.warn({ folder: path, message, hint }, "answers_left_behind");
  }
}
