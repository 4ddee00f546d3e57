import { defineConfig } from "vitest/config";

// What takes minutes, one file at a time: fuzz, faults, crashes.
export default defineConfig({
  test: {
    include: ["test/**/*.long.ts"],
    testTimeout: 1_800_000,
    hookTimeout: 120_000,
    maxWorkers: 1,
    // Totals and seeds are part of the outcome.
    disableConsoleIntercept: true,
    globalSetup: ["test/support/database-server.ts"],
  },
});
