import { globSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";

const folder = resolve("dashboards/superset");
const files = <T>(part: string, shape: z.ZodType<T>): Promise<readonly T[]> =>
  Promise.all(
    globSync(`${part}/*.yaml`, { cwd: folder })
      .toSorted()
      .map(async (file) => shape.parse(parse(await readFile(resolve(folder, file), "utf8")))),
  );

const datasetShape = z.object({
  table_name: z.string(),
  uuid: z.uuid(),
  database_uuid: z.uuid(),
  schema: z.string(),
  columns: z.array(
    z.object({
      column_name: z.string(),
      verbose_name: z.string(),
      type: z.string(),
      description: z.string(),
    }),
  ),
  metrics: z.array(z.object({ metric_name: z.string(), verbose_name: z.string(), description: z.string() })),
});
const filterShape = z.object({ subject: z.string() });
const chartShape = z.object({
  slice_name: z.string(),
  description: z.string().min(1),
  viz_type: z.string(),
  uuid: z.uuid(),
  dataset_uuid: z.uuid(),
  params: z.looseObject({
    viz_type: z.string(),
    x_axis: z.string().optional(),
    groupby: z.array(z.string()).default([]),
    all_columns: z.array(z.string()).default([]),
    metric: z.string().optional(),
    metrics: z.array(z.string()).default([]),
    metrics_b: z.array(z.string()).default([]),
    timeseries_limit_metric: z.string().optional(),
    adhoc_filters: z.array(filterShape),
    adhoc_filters_b: z.array(filterShape).default([]),
  }),
});
const dashboardShape = z.object({
  dashboard_title: z.string(),
  slug: z.string(),
  description: z.string().min(1),
  position: z.record(
    z.string(),
    z.union([
      z.string(),
      z.looseObject({
        meta: z
          .looseObject({
            uuid: z.uuid().optional(),
            sliceName: z.string().optional(),
          })
          .optional(),
      }),
    ]),
  ),
  metadata: z.looseObject({
    native_filter_configuration: z.array(
      z.looseObject({
        name: z.string(),
        targets: z.array(
          z.object({
            datasetUuid: z.uuid().optional(),
            column: z.object({ name: z.string() }).optional(),
          }),
        ),
      }),
    ),
  }),
});

const [datasets, charts, dashboards] = await Promise.all([
  files("datasets", datasetShape),
  files("charts", chartShape),
  files("dashboards", dashboardShape),
]);
const datasetOf = (uuid: string | undefined) => datasets.find((dataset) => dataset.uuid === uuid);

test("the bundle has four dashboards, and every chart and dataset is used", () => {
  expect(dashboards.map(({ dashboard_title: title }) => title)).toEqual([
    "Enrichment coverage and freshness",
    "Pipeline health",
    "Segments, deaths and changes",
    "Usage and cost",
  ]);
  const drawn = dashboards.flatMap(({ position }) =>
    Object.values(position).flatMap((item) =>
      typeof item === "string" || item.meta?.uuid === undefined
        ? []
        : [`${item.meta.uuid} ${item.meta.sliceName}`],
    ),
  );
  expect(drawn.toSorted()).toEqual(charts.map((chart) => `${chart.uuid} ${chart.slice_name}`).toSorted());
  expect(new Set(charts.map((chart) => chart.dataset_uuid))).toEqual(
    new Set(datasets.map(({ uuid }) => uuid)),
  );
});

test("charts and filters name only columns and metrics of their dataset", () => {
  for (const { slice_name: name, dataset_uuid: uuid, params, viz_type: type } of charts) {
    const dataset = datasetOf(uuid);
    const columns = dataset?.columns.map((column) => column.column_name) ?? [];
    const metrics = dataset?.metrics.map((metric) => metric.metric_name) ?? [];
    const subjects = [...params.adhoc_filters, ...params.adhoc_filters_b].map(({ subject }) => subject);
    const named = [...params.groupby, ...params.all_columns, ...subjects];
    expect.soft(columns, name).toEqual(expect.arrayContaining(named.concat(params.x_axis ?? [])));
    const measured = [...params.metrics, ...params.metrics_b];
    const single = [params.metric ?? [], params.timeseries_limit_metric ?? []].flat();
    expect.soft(metrics, name).toEqual(expect.arrayContaining([...measured, ...single]));
    expect.soft(params.viz_type).toBe(type);
  }
  for (const { dashboard_title: title, metadata } of dashboards) {
    for (const { targets } of metadata.native_filter_configuration) {
      for (const { datasetUuid, column } of targets) {
        if (!column) continue;
        const columns = datasetOf(datasetUuid)?.columns.map((known) => known.column_name);
        expect.soft(columns, title).toContain(column.name);
      }
    }
  }
});

test("exposures of the dbt package name the marts of each dashboard", async () => {
  const shape = z.object({
    exposures: z.array(z.object({ label: z.string(), depends_on: z.array(z.string()) })),
  });
  const { exposures } = shape.parse(
    parse(await readFile(resolve("dbt/models/marts/_exposures.yml"), "utf8")),
  );
  const named = exposures.map(({ label, depends_on }) => [label, new Set(depends_on)] as const);
  const read = dashboards.map(({ dashboard_title: title, position }) => {
    const uuids = Object.values(position).map((item) =>
      typeof item === "string" ? undefined : item.meta?.uuid,
    );
    const used = charts.filter(({ uuid }) => uuids.includes(uuid));
    const marts = used.map(({ dataset_uuid: uuid }) => `ref('${datasetOf(uuid)?.table_name}')`);
    return [title, new Set(marts)] as const;
  });
  expect(new Map(named)).toEqual(new Map(read));
});

test("the database and the schema are filled in by the import", async () => {
  expect(await readFile(resolve(folder, "databases/person_etl.yaml"), "utf8")).toContain(
    "sqlalchemy_uri: ${SQLALCHEMY_URI}\n",
  );
  for (const { schema } of datasets) expect(schema).toBe("${REPORTING_SCHEMA}");
});
