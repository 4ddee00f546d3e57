import { defineConfig } from "vitest/config";

/** The dbt package, dashboards and pages, each with the real tool: `npm run test:downstream`. */
export default defineConfig({
  test: {
    include: ["test/downstream/**/*.downstream.ts"],
    testTimeout: 300_000,
    // The first test of a machine installs Python packages.
    hookTimeout: 900_000,
    maxWorkers: 3,
    // Times are part of the outcome.
    disableConsoleIntercept: true,
    globalSetup: ["test/support/database-server.ts"],
  },
});
