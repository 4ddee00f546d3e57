import { systemClock } from "../clock.ts";
import type { Config } from "../config/config.ts";
import { prepareRun } from "../jobs/prepare.ts";
import { selectJobs } from "../jobs/job-selection.ts";
import type { JobServices } from "../jobs/services.ts";
import { checkServiceHost } from "../jobs/service-host.ts";
import { measureHttp, type CallObserver } from "../operate/measured-http.ts";
import type { Context } from "./context.ts";
import { openConfig } from "./open-config.ts";
import type { Publisher } from "../jobs/publish/publisher.ts";
import { openPublisher } from "./open-publisher.ts";
import { openService } from "./open-service.ts";
import { openConfiguredWarehouse } from "./open-warehouse.ts";
import { createSampleTables } from "./sample-tables.ts";
import { createScope } from "./scope.ts";

/** A loaded configuration with the resources opened for it. */
export interface Generation {
  readonly config: Config;
  /** Services with a new limiter for each run. */
  readonly services: () => JobServices;
  /** Destinations of this configuration. */
  readonly publisher: Publisher;
  close(): Promise<void>;
}

/** Loads the configuration, opens and verifies its resources. Leaves nothing open after a failure. */
export async function openGeneration(context: Context, observer: CallObserver): Promise<Generation> {
  const scope = createScope(context.log);
  // A second signal stops child processes immediately.
  context.scope.deferProgram("programs of the schedule", () => scope.closePrograms());
  const own: Context = { ...context, scope };
  try {
    const config = await openConfig(context);
    const jobs = selectJobs(config, []);
    const { db } = await openConfiguredWarehouse(own, config);
    await checkServiceHost(config, db);
    if (config.service.baseUrl === "sandbox") await createSampleTables(config, jobs, db, own);
    const { http, createLimiter } = await openService(own, config);
    const shared = {
      config,
      db,
      http: measureHttp(http, observer),
      clock: systemClock,
      log: context.log,
      signal: context.stop.signal,
      random: Math.random,
      progress: context.progress,
    };
    await prepareRun(shared, jobs);
    const publisher = openPublisher(config, db, { log: context.log, signal: context.stop.signal });
    scope.defer("destinations", () => publisher.close());
    publisher.startIntervals(systemClock);
    return {
      config,
      publisher,
      services: () => ({ ...shared, limiter: createLimiter() }),
      close: () => scope.close(),
    };
  } catch (error) {
    await scope.close();
    throw error;
  }
}
