import { defineConfig } from "vitest/config";

/** The dbt package, dashboards and pages, each with the real tool: `npm run test:downstream`. */
export default defineConfig({
  test: {
    include: ["test/downstream/**/*.downstream.ts"],
    testTimeout: 1_200_000,
    // The first caller installs Python packages and makes the nights, for which the others wait.
    hookTimeout: 2_400_000,
    maxWorkers: 3,
    // Times are part of the outcome.
    disableConsoleIntercept: true,
    globalSetup: ["test/support/database-server.ts"],
    setupFiles: ["test/support/run-at-end.ts"],
  },
});
