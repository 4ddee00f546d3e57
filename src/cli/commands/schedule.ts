import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { createSampleTables } from "./sandbox.ts";
import { localServices, openConfig, openPublisher, openService, openWarehouseOf, readToken } from "../app.ts";
import { type Context, createScope, newRunId, result } from "../command.ts";
import { failureOf } from "../failure.ts";
import { readVersion } from "../package.ts";
import { systemClock } from "../../clock.ts";
import type { Config } from "../../config/config.ts";
import { FixConfigurationError } from "../../errors.ts";
import { scheduledJobs, selectJobs, unscheduledJobs } from "../../jobs/job-selection.ts";
import { finishErasuresQuietly } from "../../jobs/erase/erase.ts";
import { prepareRun } from "../../jobs/prepare.ts";
import { checkServiceHost } from "../../jobs/service-identity.ts";
import type { Publisher } from "../../jobs/publish/publisher.ts";
import type { JobServices } from "../../jobs/services.ts";
import { createMetrics, type Metrics } from "../../operate/metrics.ts";
import { alertRunFailure, concludeRun, createOverview } from "../../operate/overview.ts";
import { createLivePage } from "../../operate/page/render-page.ts";
import { servePages } from "../../operate/pages.ts";
import { runScheduler, startAlarm } from "../../operate/scheduler.ts";

export async function schedule(context: Context) {
  const { log, scope, stop } = context;
  const { signal } = stop;
  const metrics = createMetrics(readVersion());
  let present = await openGeneration(context, metrics);
  scope.defer("schedule", () => present.close());
  const overview = createOverview(() => present.services(), signal);
  const { http } = present.config;
  const pages = await servePages(
    {
      page: createLivePage(() => present.services(), overview.statusNow),
      probes: {
        readiness: () => overview.readiness(),
        metrics: async () => metrics.render(await overview.status()),
      },
      token: http.token && (() => readToken(context, present.config)),
    },
    http,
  );
  scope.defer("pages", () => pages.close());
  const alarm = await startAlarm();
  scope.defer("alarm", () => alarm.close());

  let isReloadWanted = false;
  const onHangup = () => {
    isReloadWanted = true;
    log.info({}, "reload_wanted");
    alarm.ring();
  };
  process.on("SIGHUP", onHangup);
  scope.defer("reload", () => void process.off("SIGHUP", onHangup));

  await context.announce(
    { url: pages.url, jobs: present.config.jobs.filter(({ enabled }) => enabled).map(({ name }) => name) },
    `Running jobs by schedule until Ctrl-C. Page: ${pages.url}`,
  );
  const jobs = scheduledJobs(present.config).map(({ name, companions }) => ({ job: name, with: companions }));
  log.info({ url: pages.url, jobs }, "schedule_started");
  for (const job of unscheduledJobs(present.config)) {
    const hint = "give it a schedule, or run it after a job that has one";
    log.warn({ job, hint }, "job_not_scheduled");
  }
  await runScheduler({
    services: () => present.services(),
    by: { owner: randomUUID(), host: hostname(), pid: process.pid },
    nextWake: (stopping) => alarm.next(stopping),
    async beforeRound() {
      if (!isReloadWanted) return;
      isReloadWanted = false;
      present = await reload(context, present, () => openGeneration(context, metrics));
    },
    newRunId,
    async afterRun(services, report) {
      metrics.observeRun(report);
      overview.forget();
      await concludeRun(services, report, { isWhole: true });
      const publications = await present.publisher.publish();
      // Erasures are pending until all destinations are published.
      if (publications.length > 0) await finishErasuresQuietly(services);
    },
    afterFailure: alertRunFailure,
    idle: (services) => overview.watch(services),
    signal,
  });
  log.info({}, "schedule_ended");
  return result(null, "", stop.exitCode() ?? 0);
}

/** Loads the new configuration; keeps the current one if the new one is invalid. */
async function reload(
  { log }: Context,
  present: Generation,
  open: () => Promise<Generation>,
): Promise<Generation> {
  let next: Generation;
  try {
    next = await open();
  } catch (error) {
    const { code, message, problems } = failureOf(error);
    log.error({ code, message, problems }, "reload_refused");
    return present;
  }
  const before = present.config.http;
  const { http } = next.config;
  if (http.bind !== before.bind || http.port !== before.port) {
    log.warn({ hint: "restart to serve the pages at another address" }, "http_unchanged");
  }
  await present.close();
  log.info({ jobs: scheduledJobs(next.config).map(({ name }) => name) }, "reloaded");
  return next;
}

function refuseWithoutSchedule(config: Config): void {
  if (scheduledJobs(config).length > 0) return;
  const [first] = selectJobs(config, []);
  const hint = 'add schedule: "15 1 * * *" (every day at 01:15 UTC); jobs that depend on it run with it';
  throw new FixConfigurationError("no_schedule", "No enabled job has a schedule.", [
    { path: `jobs.${first?.name}`, message: "has no schedule", hint },
  ]);
}

/** A loaded configuration with the resources opened for it. */
interface Generation {
  readonly config: Config;
  /** Services with a new limiter for each run. */
  readonly services: () => JobServices;
  readonly publisher: Publisher;
  close(): Promise<void>;
}

/** Loads the configuration, opens and verifies its resources. Leaves nothing open after a failure. */
async function openGeneration(context: Context, metrics: Metrics): Promise<Generation> {
  const scope = createScope(context.log);
  // A second signal stops child processes immediately.
  context.scope.deferProgram("programs of the schedule", () => scope.closePrograms());
  const own: Context = { ...context, scope };
  try {
    const config = await openConfig(context);
    refuseWithoutSchedule(config);
    const jobs = selectJobs(config, []);
    const { db } = await openWarehouseOf(own, config);
    await checkServiceHost(config, db);
    await createSampleTables(config, jobs, db, own);
    const { http, createLimiter } = await openService(own, config);
    const shared = { ...localServices(own, config, db), http: metrics.measure(http) };
    await prepareRun(shared, jobs);
    const publisher = await openPublisher(own, config, db);
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
