import { defineConfig } from "vitest/config";

/**
 * Whole processes, crashes, faults, fuzz and long histories: `npm run test:slow`.
 * Generated suites run in part; PERSON_ETL_TEST_SIZE=full runs them whole.
 */
export default defineConfig({
  test: {
    include: ["test/**/*.slow.ts", "packages/*/test/**/*.slow.ts"],
    testTimeout: 600_000,
    hookTimeout: 300_000,
    // Most tests wait for processes.
    maxWorkers: 4,
    // Totals and seeds are part of the outcome.
    disableConsoleIntercept: true,
    globalSetup: ["test/support/database-server.ts"],
  },
});
