import { defineConfig } from "vitest/config";

/** Everything that is sent to BigQuery, against an emulator behind Google's SQL analyzer: `npm run test:bigquery`. */
export default defineConfig({
  test: {
    include: ["test/bigquery/**/*.bigquery.ts"],
    testTimeout: 300_000,
    // The first test of a machine installs the emulator.
    hookTimeout: 900_000,
    maxWorkers: 2,
    globalSetup: ["test/support/database-server.ts"],
    setupFiles: ["test/support/run-at-end.ts"],
  },
});
