import { freshnessTable } from "../../src/publish/destination.ts";
import { type BigQueryTarget, openBigQueryDestination } from "../../src/publish/bigquery/destination.ts";
import type { ColumnType } from "../../src/schemas/field.ts";
import { tables } from "../../src/schemas/registry.ts";
import type { DestinationContext } from "../publish/destination-suite.ts";
import type { FileRow } from "../publish/staged-files.ts";
import { type FreshDatasets, freshDatasets } from "../support/bigquery/test-bigquery.ts";

/** Values in the form of the files, by the session's types. */
const asInFiles: Partial<Record<ColumnType, (value: string) => unknown>> = {
  timestamptz: (text) => `${padded(text.replace(/Z$/, ""))}+00:00`,
  timestamp: padded,
  numeric: (text) => text.replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, ""),
};

/** A time with six fractional digits. */
function padded(text: string): string {
  const [whole = "", fraction = ""] = text.split(".");
  return `${whole}.${fraction.padEnd(6, "0")}`;
}

/** Rows of a table in the form of the files, sorted by their text. */
export async function rowsOfDatasets(context: FreshDatasets, name: string): Promise<readonly FileRow[]> {
  const table = [...tables, freshnessTable].find((t) => t.name === name);
  const dataset = table?.schema === "ops" ? context.ops : context.data;
  const types = new Map<string, ColumnType>(table?.columns.map((c) => [c.name, c.type]));
  const rows = await context.session.rows<Record<string, unknown>>({
    text: `SELECT * FROM \`${dataset}\`.\`${name}\``,
  });
  const shown = rows.map((row) =>
    Object.fromEntries(
      Object.entries(row).map(([column, value]) => {
        const show = asInFiles[types.get(column) ?? (column === "shoe_size" ? "numeric" : "text")];
        return [column, show && typeof value === "string" ? show(value) : value];
      }),
    ),
  );
  return shown.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
}

/** Test datasets in BigQuery, with statements of a user. */
export interface BigQueryDestinationContext extends DestinationContext {
  readonly datasets: FreshDatasets;
  readonly target: BigQueryTarget;
}

/** A destination in new datasets, which don't exist yet. */
export async function openBigQueryContext(
  through: (apiEndpoint: string) => string = (apiEndpoint) => apiEndpoint,
): Promise<BigQueryDestinationContext> {
  const datasets = await freshDatasets();
  const { project, apiEndpoint, data, ops } = datasets;
  const target: BigQueryTarget = {
    name: "analytics",
    project,
    location: null,
    dataset: data,
    opsDataset: ops,
    credentialsFile: null,
    impersonate: null,
    apiEndpoint: apiEndpoint === null ? null : through(apiEndpoint),
  };
  return {
    datasets,
    target,
    destination: openBigQueryDestination(target),
    async reopen() {
      return openBigQueryDestination(target);
    },
    rows: (_, table) => rowsOfDatasets(datasets, table),
    close: () => datasets.drop(),
  };
}
