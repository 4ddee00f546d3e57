import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { runCli } from "../cli/support/cli.ts";
import { comparedTables, comparedViews, compareWithPostgres } from "../publish/compare-with-postgres.ts";
import { expectPublished, expectEqualNights } from "../publish/killed-nights.ts";
import { S3_KEYS } from "../support/iceberg/start-judges.ts";
import { runSql } from "../support/run-sql.ts";
import { type IcebergContext, openIcebergContext, publishText } from "./iceberg-context.ts";
import { queryBySpark } from "./spark.ts";

const byPyiceberg = (context: IcebergContext, url: string) =>
  compareWithPostgres(url, (table) => context.ask({ table: context.nameOf(table) }));

/** Expects all tables and views, read by Spark, to equal Postgres; after it has compacted some. Returns the rows of views. */
async function expectEqualInSpark(
  context: IcebergContext,
  url: string,
  compacted: readonly string[] = [],
): Promise<number> {
  const names = [...comparedTables, ...comparedViews.map(({ name }) => name)];
  const queries = Object.fromEntries(names.map((name) => [name, `SELECT * FROM ${context.nameOf(name)}`]));
  const found = await queryBySpark(
    context.judges,
    queries,
    compacted.map((table) => context.nameOf(table)),
  );
  const read = async (name: string) => found.get(name) ?? [];
  const tables = await compareWithPostgres(url, read);
  const views = await compareWithPostgres(url, read, comparedViews);
  expect([tables.differing, views.differing]).toEqual([{}, {}]);
  return views.rows;
}

test("three nights with kills, rivals, an erasure, and a catalog that is down leave equal tables", async () => {
  const context = await openIcebergContext();
  onTestFinished(() => context.close());
  const { setting, erased } = await expectEqualNights(
    {
      server: context.judges.catalog,
      rows: 200,
      kills: 5,
      mostMs: 12_000,
      mostRequests: 80,
      env: { S3_KEY: S3_KEYS.accessKeyId },
      async publishOf(door, { cwd }) {
        await writeFile(join(cwd, "s3-secret"), S3_KEYS.secretAccessKey, { mode: 0o600 });
        return publishText(context, `${door}/iceberg`, "file:s3-secret");
      },
    },
    {
      async expectEqual(url) {
        const { differing, rows } = await byPyiceberg(context, url);
        expect(differing).toEqual({});
        expect(await expectEqualInSpark(context, url)).toBeGreaterThan(500);
        return rows;
      },
      differing: async (url) => Object.keys((await byPyiceberg(context, url)).differing),
      async beforeLast(setting) {
        await runSql(
          setting.url,
          "UPDATE person_data.person SET full_name = full_name || ' é', _synced_at = now()",
        );
        const rivals = await Promise.all([1, 2].map(() => runCli(["publish"], setting)));
        // One may be locked out by the other (4).
        expect(rivals.map(({ code }) => code).filter((code) => ![0, 4].includes(code ?? -1))).toEqual([]);
      },
    },
  );
  const { url } = setting;
  // Tombstones name erased people on purpose.
  const left = await context.objectsWith(erased);
  expect(left.filter((address) => !/\/tombstone_[^/]+\/data\//u.test(address))).toEqual([]);
  // A compaction by Spark changes nothing for either side.
  await expectEqualInSpark(context, url, comparedTables.slice(0, 8));
  await runSql(
    url,
    "UPDATE person_data.person SET full_name = 'Compacted', _synced_at = now() WHERE full_name > 'M'",
  );
  await expectPublished(setting);
  expect((await byPyiceberg(context, url)).differing).toEqual({});
}, 1_800_000);
