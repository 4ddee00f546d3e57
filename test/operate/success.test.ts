import { expect, test } from "vitest";
import { readStatus } from "../../src/jobs/report/status.ts";
import type { RunReport } from "../../src/jobs/job.ts";
import { statesOfRun, statesOfTime } from "../../src/operate/alerts.ts";
import { createMetrics } from "../../src/operate/metrics.ts";
import { configOf, startWorld, type World } from "../jobs/world.ts";

const job = "enrich_customers";
const alone = `\n  ${job}: { type: enrich, input: customers }`;

/** Nothing is posted to the webhook here. */
const alerts = `alerts: { webhook: "\${SERVICE_URL}", stale_after: 1d }`;

/** Successes seen so far, in order. */
type Known = string[];

/** Reads status, metrics, tables and alerts about the job after a run. */
async function views(world: World, report: RunReport | null, known: Known) {
  const services = await world.services();
  const { config } = services;
  const status = await readStatus(services);
  const { text } = await createMetrics("0").render(status);
  const metric = (name: string) =>
    text.match(new RegExp(`^person_etl_${name}{job="${job}"} (.*)$`, "m"))?.[1];
  const seconds = metric("last_success_timestamp_seconds");
  const nth = (at: string | null) => {
    if (at === null) return null;
    if (!known.includes(at)) known.push(at);
    return known.indexOf(at) + 1;
  };
  const [entry] = status.jobs;
  const ofMetric = known
    .concat(entry?.last_success_at ?? [])
    .find((at) => Date.parse(at) / 1000 === Number(seconds));
  const table = status.tables.find(({ table_name: name }) => name === "enrichment");
  const states = [...(report ? statesOfRun(config, report) : []), ...statesOfTime(config, status)];
  const stateOf = (subject: string) => states.find((state) => state.subject === subject)?.state ?? null;
  return {
    ended: [entry?.last_run?.status ?? null, entry?.last_run?.limited_by ?? null],
    successes: [
      nth(entry?.last_success_at ?? null),
      nth(ofMetric ?? null),
      nth(table?.last_success_at ?? null),
    ],
    fresh: [entry?.freshness, metric("job_fresh")],
    alerts: [stateOf(`job ${job}`), stateOf(`freshness ${job}`)],
    attention: status.attention.map(({ code }) => code),
  };
}

test("status, metrics, table_freshness and alerts agree on what a success is", async () => {
  const world = await startWorld({ rows: 60, config: configOf(alone, alerts) });
  const known: Known = [];
  expect(await views(world, null, known)).toEqual({
    ended: [null, null],
    successes: [null, null, null],
    fresh: ["never", "0"],
    alerts: [null, "ok"],
    attention: [],
  });

  await world.control("/capacity", { records: 0, code: "insufficient_credits" });
  expect(await views(world, await world.run(), known)).toEqual({
    ended: ["limited", "credits"],
    successes: [null, null, null],
    fresh: ["never", "0"],
    alerts: ["credits", "ok"],
    attention: ["credits"],
  });
  await world.control("/capacity", { records: null });

  expect(await views(world, await world.run({ maxRecords: 10 }), known)).toEqual({
    ended: ["limited", "max_records"],
    successes: [1, 1, 1],
    fresh: ["limited", "1"],
    alerts: ["ok", "ok"],
    attention: [],
  });

  expect(await views(world, await world.run(), known)).toEqual({
    ended: ["succeeded", null],
    successes: [2, 2, 2],
    fresh: ["fresh", "1"],
    alerts: ["ok", "ok"],
    attention: [],
  });

  // Rejects are reported apart from success, unless there is a `max_reject_ratio`.
  await world.rows("INSERT INTO crm.customers (id) SELECT 1000 + n FROM generate_series(1, 1000) AS n");
  expect(await views(world, await world.run(), known)).toEqual({
    ended: ["succeeded", null],
    successes: [3, 3, 3],
    fresh: ["fresh", "1"],
    alerts: ["ok", "ok"],
    attention: ["many_rejects"],
  });

  world.configure(configOf(alone, `${alerts}\nmax_reject_ratio: 0.5\n`));
  await world.rows("INSERT INTO crm.customers (id) VALUES (5000)");
  expect(await views(world, await world.run(), known)).toEqual({
    ended: ["failed", null],
    successes: [3, 3, 3],
    fresh: ["stale", "0"],
    alerts: ["too_many_rejects", "stale"],
    attention: ["failed"],
  });
});
