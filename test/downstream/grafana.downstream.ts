import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { parser } from "@prometheus-io/lezer-promql";
import parseMetrics from "parse-prometheus-text-format";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { metricsOfNight } from "./support/metrics-page.ts";

const read = (name: string) => readFile(resolve("dashboards/grafana", name), "utf8");
const cell = z.number().int().nonnegative();
const dashboard = z
  .looseObject({
    uid: z.literal("person-etl"),
    schemaVersion: cell,
    templating: z.looseObject({ list: z.array(z.looseObject({ name: z.string(), type: z.string() })) }),
    panels: z.array(
      z.looseObject({
        id: cell,
        type: z.enum(["stat", "bargauge", "timeseries"]),
        title: z.string().min(1),
        description: z.string().min(1),
        gridPos: z.object({ x: cell, y: cell, w: cell, h: cell }),
        datasource: z.object({ type: z.literal("prometheus"), uid: z.literal("${datasource}") }),
        targets: z.array(
          z.looseObject({ refId: z.string(), expr: z.string().min(1), legendFormat: z.string() }),
        ),
        fieldConfig: z.looseObject({ defaults: z.looseObject({ unit: z.string() }) }),
      }),
    ),
  })
  .parse(JSON.parse(await read("dashboard.json")));
const rules = z
  .strictObject({
    groups: z.array(
      z.strictObject({
        name: z.string(),
        rules: z.array(
          z.strictObject({
            alert: z.string().regex(/^PersonEtl[A-Z]\w+$/),
            expr: z.string(),
            for: z
              .string()
              .regex(/^\d+[mh]$/)
              .optional(),
            labels: z.strictObject({ severity: z.enum(["critical", "warning"]) }),
            annotations: z.strictObject({ summary: z.string().min(1), description: z.string().min(1) }),
          }),
        ),
      }),
    ),
  })
  .parse(parse(await read("alerts.yaml")))
  .groups.flatMap((group) => group.rules);

/** Metric names and labels in an expression, and positions of syntax errors. */
function readExpression(expression: string) {
  // Grafana replaces its variables before Prometheus parses the expression.
  const text = expression.replace(/\$__(rate_)?interval/g, "5m");
  const metrics: string[] = [];
  const labels: string[] = [];
  const errors: number[] = [];
  parser.parse(text).iterate({
    enter(node) {
      const here = text.slice(node.from, node.to);
      if (node.type.isError) errors.push(node.from);
      if (node.name === "Identifier") metrics.push(here);
      if (node.name === "LabelName") labels.push(here);
    },
  });
  return { metrics, labels, errors };
}

/** Labels by metric. */
type Served = ReadonlyMap<string, ReadonlySet<string>>;

function readServed(text: string): Served {
  const served = new Map<string, Set<string>>();
  for (const { name, type, metrics } of parseMetrics(text)) {
    if (type === "HISTOGRAM") served.set(`${name}_bucket`, new Set(["endpoint", "le"]));
    else if (metrics.length > 0)
      served.set(name, new Set(metrics.flatMap((metric) => Object.keys(metric.labels ?? {}))));
  }
  return served;
}

/** Finds what an expression, and texts with its labels, name that isn't served. */
function missingIn(served: Served, expression: string, texts: readonly string[]): readonly string[] {
  const { metrics, labels, errors } = readExpression(expression);
  const shown = texts.flatMap((text) =>
    [...text.matchAll(/\{\{\s*(?:\$labels\.)?([a-z_]+)\s*\}\}/g)].map(([, name = ""]) => name),
  );
  // Prometheus adds the process.
  const known = new Set(["instance", ...metrics.flatMap((name) => [...(served.get(name) ?? [])])]);
  return [
    ...errors.map((place) => `syntax at ${place}`),
    ...metrics.filter((name) => !served.has(name)),
    ...labels.filter((name) => !known.has(name)),
    // A label that the expression doesn't keep is empty.
    ...shown.filter((name) => !labels.includes(name)),
  ];
}

test("expressions are PromQL on what /metrics serves, and leave out only what says the same", async () => {
  const served = readServed(await metricsOfNight());
  const targets = dashboard.panels.flatMap((panel) => panel.targets);
  for (const { expr, legendFormat } of targets)
    expect.soft(missingIn(served, expr, [legendFormat]), expr).toEqual([]);
  for (const { expr, annotations } of rules)
    expect.soft(missingIn(served, expr, Object.values(annotations)), expr).toEqual([]);

  const used = new Set([...targets, ...rules].flatMap(({ expr }) => readExpression(expr).metrics));
  const unused = [...served.keys()].filter((name) => name.startsWith("person_etl_") && !used.has(name));
  expect(unused).toEqual([
    "person_etl_rows_written_total",
    "person_etl_budget_records_used",
    "person_etl_budget_cost_left",
    "person_etl_publication_keys_waiting",
    "person_etl_publication_timestamp_seconds",
  ]);
});

test("syntax errors, unknown metrics, unknown labels and lost labels are found", () => {
  const served: Served = new Map([["person_etl_job_fresh", new Set(["job"])]]);
  expect(missingIn(served, "sum by (job) (person_etl_job_fresh)", ["{{job}}"])).toEqual([]);
  expect(missingIn(served, "sum(person_etl_job_fresh", [])).toEqual(["syntax at 24"]);
  expect(missingIn(served, "sum by (shop) (person_etl_jobs_fresh)", ["{{ $labels.job }}"])).toEqual([
    "person_etl_jobs_fresh",
    "shop",
    "job",
  ]);
});

test("panels have unique IDs and don't overlap", () => {
  const taken = new Set<string>();
  for (const { title, gridPos } of dashboard.panels) {
    expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
        expect.soft(taken.has(`${x} ${y}`), title).toBe(false);
        taken.add(`${x} ${y}`);
      }
    }
  }
  expect(new Set(dashboard.panels.map((panel) => panel.id)).size).toBe(dashboard.panels.length);
  const variables = dashboard.templating.list.map(({ name }) => name);
  expect(variables).toEqual(["datasource", "job"]);
});
