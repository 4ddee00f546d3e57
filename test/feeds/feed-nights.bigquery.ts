import { describe, expect, test } from "vitest";
import { makeBigQuerySetting } from "../bigquery/bigquery-setting.ts";
import { testSeed } from "../support/seeded-random.ts";
import { bigQueryOfRun } from "../support/test-bigquery.ts";
import { runFeedNights } from "./run-feed-nights.ts";

const bigQuery = await bigQueryOfRun();

/** Half a minute each on an emulator that has a machine for itself. */
const NIGHTS = Number(process.env["PERSON_ETL_FEED_NIGHTS"] ?? 20);

describe.runIf(bigQuery)("feeds kept in BigQuery", () => {
  test(
    `after each of ${NIGHTS} nights with faults and kills hold what the service says, a pause of 100 days included`,
    async () => {
      if (!bigQuery) throw new Error("there is no BigQuery");
      const seed = testSeed();
      const setting = await makeBigQuerySetting(bigQuery);
      const startedMs = performance.now();
      const totals = await runFeedNights(
        {
          nights: NIGHTS,
          // The clocks of New York change in the second night.
          from: "2026-03-07",
          seed,
          killEvery: 4,
          pause: { after: Math.ceil(NIGHTS / 2), days: 100 },
        },
        { ...setting, warehouse: setting.warehouse(), schema: setting.session.names.data },
      );
      const secondsPerNight = (performance.now() - startedMs) / 1000 / NIGHTS;
      process.stdout.write(`${JSON.stringify({ seed, nights: NIGHTS, secondsPerNight, ...totals })}\n`);
      expect(await setting.staging()).toEqual([]);
      expect(totals.gaps).toBe(NIGHTS > 1 ? 1 : 0);
    },
    NIGHTS * 600_000,
  );
});
