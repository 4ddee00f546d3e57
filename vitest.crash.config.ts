import { defineConfig } from "vitest/config";

/** The kill matrix: `npm run test:crash`. */
export default defineConfig({
  test: {
    include: ["test/crash/**/*.crash.ts"],
    testTimeout: 1_800_000,
    hookTimeout: 300_000,
    maxWorkers: 2,
    globalSetup: ["test/support/database-server.ts"],
  },
});
