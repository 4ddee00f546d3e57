import { defineConfig } from "vitest/config";

/** Whole processes and long histories, which take half a minute a file: `npm run test:slow`. */
export default defineConfig({
  test: {
    include: ["test/**/*.slow.ts"],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    maxWorkers: 4,
    globalSetup: ["test/support/database-server.ts"],
  },
});
