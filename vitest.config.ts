import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // Most tests wait for a server or a process: four files at a time use two cores well.
    maxWorkers: 4,
    globalSetup: ["test/support/database-server.ts"],
  },
});
