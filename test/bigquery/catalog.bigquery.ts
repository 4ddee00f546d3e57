import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { createTable, createView } from "../../src/publish/bigquery/datasets.ts";
import { declaredCatalog, withViews } from "../../src/publish/destination.ts";
import { batchAfter, publishRows } from "../publish/staged-files.ts";
import { inputViews } from "../publish/view-rows.ts";
import { type BigQueryDestinationContext, openBigQueryContext } from "./bigquery-context.ts";

const catalog = withViews(declaredCatalog(null), inputViews);
let context: BigQueryDestinationContext;
beforeAll(async () => {
  context = await openBigQueryContext();
  await context.destination.migrate(catalog);
});
afterAll(() => context.close());

interface TableResource {
  readonly type: string;
  readonly description?: string;
  readonly clustering?: { readonly fields: readonly string[] };
  readonly timePartitioning?: { readonly field: string; readonly type: string };
  readonly tableConstraints?: {
    readonly primaryKey?: { readonly columns: readonly string[] };
    readonly foreignKeys?: readonly {
      readonly referencedTable: { readonly tableId: string };
      readonly columnReferences: readonly {
        readonly referencingColumn: string;
        readonly referencedColumn: string;
      }[];
    }[];
  };
  readonly expirationTime?: string;
  readonly schema: {
    readonly fields: readonly {
      readonly name: string;
      readonly type: string;
      readonly mode?: string;
      readonly description?: string;
    }[];
  };
}

const tableOf = (dataset: string, name: string) =>
  context.datasets.client.send<TableResource>({ method: "GET", path: `/datasets/${dataset}/tables/${name}` });

test("every view has its declared columns, and can be read", async () => {
  expect(catalog.views.map(({ name }) => name)).toContain("identity_link");
  for (const view of catalog.views) {
    const dataset = view.schema === "ops" ? context.datasets.ops : context.datasets.data;
    const text = `SELECT ${view.columns.map((c) => `\`${c.name}\``).join(", ")} FROM \`${dataset}\`.\`${view.name}\``;
    const rows = await context.datasets.session.rows({ text });
    // Coverage has one row per field.
    expect([view.name, rows.length]).toEqual([view.name, view.name === "field_coverage" ? 106 : 0]);
    expect((await tableOf(dataset, view.name)).type).toBe("VIEW");
  }
});

test("columns have BigQuery's types and comments with their PII class, and tables no expiration", async () => {
  const person = await tableOf(context.datasets.data, "person");
  const fields = new Map(person.schema.fields.map((field) => [field.name, field]));
  expect(fields.get("service_pid")).toMatchObject({ type: "STRING", mode: "REQUIRED" });
  expect(fields.get("dob")).toMatchObject({ type: "DATE", mode: "NULLABLE" });
  expect(fields.get("_synced_at")).toMatchObject({ type: "TIMESTAMP", mode: "REQUIRED" });
  expect(fields.get("_extra")).toMatchObject({ type: "JSON" });
  expect(fields.get("estimated_income_min")).toMatchObject({ type: "NUMERIC" });
  expect(fields.get("service_pid")?.description).toMatch(/ pii: direct$/);
  expect(person.description).toMatch(/ pii: sensitive$/);
  expect(person.clustering?.fields).toEqual(["service_pid"]);
  expect(person.expirationTime).toBeUndefined();
  const answers = await tableOf(context.datasets.data, "resolution");
  expect(answers.schema.fields).toContainEqual(
    expect.objectContaining({ name: "match_score", type: "BIGNUMERIC" }),
  );
  const calls = await tableOf(context.datasets.ops, "api_call");
  expect(calls.timePartitioning).toMatchObject({ field: "started_at", type: "DAY" });
  const matches = await tableOf(context.datasets.data, "match_history");
  expect(matches.timePartitioning).toMatchObject({ field: "valid_from", type: "MONTH" });
  expect(matches.clustering?.fields).toEqual(["job", "source", "source_key", "valid_from"]);
});

/** Keys of a table: the primary one, then what each foreign one refers to. */
async function keysOf({ datasets }: BigQueryDestinationContext, name: string) {
  const path = `/datasets/${datasets.data}/tables/${name}`;
  const { tableConstraints } = await datasets.client.send<TableResource>({ method: "GET", path });
  const foreign = (tableConstraints?.foreignKeys ?? []).map(({ referencedTable, columnReferences }) => [
    referencedTable.tableId,
    ...columnReferences.map((one) => `${one.referencingColumn} = ${one.referencedColumn}`),
  ]);
  return [tableConstraints?.primaryKey?.columns, ...foreign];
}

const keysOfSignals = [
  ["segment_id", "obituary_id", "service_pid"],
  ["death_signal", "obituary_id = obituary_id", "service_pid = service_pid"],
];

test("tables have their primary and foreign keys, also those of an earlier version and without the table referred to", async () => {
  expect(await keysOf(context, "segment_death_signal")).toEqual(keysOfSignals);
  expect(await keysOf(context, "death_signal")).toEqual([["obituary_id", "service_pid"]]);
  const older = await openBigQueryContext();
  onTestFinished(() => older.close());
  await older.destination.migrate(declaredCatalog(["segment_death_signal"]));
  expect(await keysOf(older, "segment_death_signal")).toEqual(keysOfSignals.slice(0, 1));
  await older.destination.migrate(declaredCatalog(["segment_death_signal", "death_signal"]));
  expect(await keysOf(older, "segment_death_signal")).toEqual(keysOfSignals);
});

test("a table of an earlier version takes amounts into its wider column", async () => {
  const older = await openBigQueryContext();
  onTestFinished(() => older.close());
  const prices = declaredCatalog(["price_tier"]);
  const wide = prices.tables.map((table) => ({
    ...table,
    columns: table.columns.map(({ name, type, pii, doc, required = false }) => ({
      name,
      type,
      pii,
      doc,
      required,
    })),
  }));
  await older.destination.migrate({ ...prices, tables: wide });
  await older.destination.migrate(prices);
  const row = {
    price_tiers: "0:0.002",
    records_from: 0,
    amount: "0.002",
    _synced_at: "2026-11-27T00:00:00.000000+00:00",
    _run_id: "",
  };
  const keys = [{ price_tiers: "0:0.002", records_from: 0 }];
  await publishRows(older.destination, prices, batchAfter(null), [
    { table: "price_tier", keys, rows: [row] },
  ]);
  const { schema } = await older.datasets.client.send<TableResource>({
    method: "GET",
    path: `/datasets/${older.datasets.ops}/tables/price_tier`,
  });
  expect(schema.fields.find(({ name }) => name === "amount")?.type).toBe("BIGNUMERIC");
  expect(await older.rows(older.destination, "price_tier")).toMatchObject([{ amount: "0.002" }]);
});

test("DDL quotes every name and text", () => {
  const names = { project: "my-project", data: "d`x", ops: "o", staging: "s", kmsKey: "projects/p/k" };
  const table = {
    name: "odd",
    schema: "data" as const,
    doc: `It's "odd" \\ \n`,
    key: ["select"],
    columns: [
      { name: "select", type: "text" as const, pii: "none" as const, doc: "A `name`.", required: true },
    ],
    root: "odd",
    rootKey: ["select"],
  };
  expect(createTable(table, names)).toBe(`CREATE TABLE IF NOT EXISTS \`my-project\`.\`d\\\`x\`.\`odd\` (
  \`select\` STRING NOT NULL OPTIONS (description = 'A \`name\`. pii: none'),
  PRIMARY KEY (\`select\`) NOT ENFORCED
)
CLUSTER BY \`select\`
OPTIONS (description = 'It\\'s \\"odd\\" \\\\ \\n pii: none', labels = [("application", "person-etl"), ("pii", "none")], kms_key_name = 'projects/p/k')`);
  const [view] = catalog.views;
  expect(
    view &&
      createView(
        view,
        names,
        new Map([
          ["resolution", "data"],
          ["enrichment", "data"],
        ]),
      ),
  ).toContain("FROM `my-project`.`d\\`x`.`resolution`");
});
