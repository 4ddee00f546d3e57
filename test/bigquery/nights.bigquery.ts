import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { compareWithPostgres } from "../publish/compare-with-postgres.ts";
import { rowsOfFile } from "../publish/duckdb-context.ts";
import { expectEqualNights } from "../publish/killed-nights.ts";
import { openBigQueryContext, rowsOfDatasets } from "./bigquery-context.ts";

test("three nights with kills, an erasure, and a destination that is down leave equal tables everywhere", async () => {
  const context = await openBigQueryContext();
  onTestFinished(() => context.close());
  const { project, dataset, opsDataset, apiEndpoint } = context.target;
  let file = "";
  const inDuckDb = (url: string) => compareWithPostgres(url, (table) => rowsOfFile(file, table));
  const inBigQuery = (url: string) =>
    compareWithPostgres(url, (table) => rowsOfDatasets(context.datasets, table));
  const { erased } = await expectEqualNights(
    {
      server: apiEndpoint ?? "",
      rows: 300,
      kills: 6,
      mostMs: 6_000,
      mostRequests: 60,
      publishOf(door, { cwd }) {
        file = join(cwd, "people.duckdb");
        return `publish:
  analytics: { type: bigquery, project: ${project}, dataset: ${dataset}, ops_dataset: ${opsDataset}, api_endpoint: "${door}" }
  local: { type: duckdb, path: "${file}" }
`;
      },
    },
    {
      async expectEqual(url) {
        const { differing, rows } = await inBigQuery(url);
        expect([differing, (await inDuckDb(url)).differing]).toEqual([{}, {}]);
        return rows;
      },
      async differing(url) {
        expect((await inDuckDb(url)).differing).toEqual({});
        return Object.keys((await inBigQuery(url)).differing);
      },
    },
  );
  for (const table of ["person", "person_email", "enrichment"]) {
    const text = `SELECT service_pid FROM ${table} WHERE service_pid = @erased`;
    const found = await context.datasets.session.rows({ text, parameters: { erased } });
    expect([table, found]).toEqual([table, []]);
  }
}, 900_000);
