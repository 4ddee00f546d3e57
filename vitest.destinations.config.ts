import { defineConfig } from "vitest/config";

/** Destinations with servers of their own: `npm run test:destinations`. */
export default defineConfig({
  test: {
    include: ["test/destinations/**/*.destination.ts"],
    testTimeout: 300_000,
    // The first test of a machine installs the servers and readers.
    hookTimeout: 1_200_000,
    maxWorkers: 2,
    globalSetup: ["test/support/database-server.ts"],
    setupFiles: ["test/support/run-at-end.ts"],
  },
});
