import type { JobConfig } from "../config/config.ts";
import { finishErasures } from "./erase/erase.ts";
import { inspectInputs, throwProblems, verifyAfterMigrating } from "./verify-inputs.ts";
import type { JobServices } from "./services.ts";
import { reportWaiting } from "./lookup/waiting-answers.ts";
import { checkServiceHost, serviceHostOf } from "./service-host.ts";

/**
 * Everything before the first call: verifies inputs and service, then creates or upgrades the tables. Only queries over
 * our own tables, which may not be there yet, are verified after that.
 */
export async function prepareRun(
  services: Pick<JobServices, "config" | "warehouse" | "log">,
  jobs: readonly JobConfig[],
): Promise<void> {
  const { config, warehouse, log } = services;
  const { problems, afterMigrating } = await inspectInputs(config, warehouse, jobs);
  throwProblems(problems);
  await checkServiceHost(config, warehouse);
  const migrations = await warehouse.migrate();
  if (migrations.length > 0) log.info({ migrations }, "migrated");
  await verifyAfterMigrating(warehouse, afterMigrating);
  await warehouse.checkErasureKey();
  await finishErasures(services);
  await warehouse.dropTombstones(config.privacy.erasureNoticeMs);
  await warehouse.writeServiceHost(serviceHostOf(config), { replace: false });
  for (const { path, message, hint } of (await reportWaiting(config, warehouse)).remarks) {
    log.warn({ folder: path, message, hint }, "answers_left_behind");
  }
}
