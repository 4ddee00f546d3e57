import { defineConfig } from "vitest/config";

/** The whole behaviour of a warehouse on BigQuery, which takes seconds a test: `npm run test:bigquery`. */
export default defineConfig({
  test: {
    include: ["test/**/*.bigquery.ts"],
    // Histories of several nights on a busy machine.
    testTimeout: 900_000,
    hookTimeout: 300_000,
    maxWorkers: 2,
    globalSetup: ["test/support/database-server.ts"],
  },
});
