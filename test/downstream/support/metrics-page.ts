import { createScope } from "../../../src/cli/command.ts";
import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { inject } from "vitest";
import { openPublisher } from "../../../src/cli/app.ts";
import { readStatus } from "../../../src/jobs/report/status.ts";
import { silentLog } from "../../../src/log.ts";
import { createMetrics } from "../../../src/operate/metrics.ts";
import { configOf, startWorld, threeJobs } from "../../jobs/world.ts";

/** Returns the text of `/metrics` after a night with rejects, prices, a budget, a quota and a destination. */
export async function metricsOfNight(): Promise<string> {
  const folder = await mkdtemp(join(inject("runFolder"), "metrics-"));
  const more = `  search_usage: { type: search_usage, schedule: "40 5 * * *" }
  push: { type: segment_push, name: VIP, sql: "select service_pid from person_data.identity_link" }
prices: { currency: USD, resolve: 0.01, validate_emails: 0.002, enrich: { amount: 0.10, included_per_month: 1000 } }
budgets: { enrich: { per_day: 100 } }
publish: { local: { type: duckdb, path: ${join(folder, "people.duckdb")} } }`;
  const world = await startWorld({ rows: 60, config: configOf(threeJobs, more) });
  await world.rows("INSERT INTO crm.customers (id) VALUES (5000)");
  const services = await world.services();
  const metrics = createMetrics("0");
  metrics.observeRun(await world.run({}, { http: metrics.measure(services.http) }));
  const publisher = await openPublisher(
    { log: silentLog, stop: services, scope: createScope(silentLog) },
    services.config,
    services.db,
  );
  await publisher.publish(["local"], { verify: false, full: false });
  await publisher.close();
  return (await metrics.render(await readStatus(services))).text;
}
