import { defineConfig } from "vitest/config";

const common = {
  testTimeout: 60_000,
  hookTimeout: 120_000,
  // Most tests wait for a server or a process: four files at a time use two cores well.
  maxWorkers: 4,
};

/** Folders whose tests need no database and leave the process as it was. */
const folders = ["architecture", "config", "extract", "schedule", "schemas"];
const replacingModules = "test/model/lookups.test.ts";
const needingDatabase = "test/schemas/cells-in-postgres.test.ts";

export default defineConfig({
  test: {
    maxWorkers: common.maxWorkers,
    projects: [
      {
        test: {
          ...common,
          name: "plain",
          include: [
            ...folders.map((folder) => `test/${folder}/**/*.test.ts`),
            "packages/*/test/**/*.test.ts",
          ],
          exclude: [needingDatabase],
          // Files share processes, which halves their CPU time.
          isolate: false,
        },
      },
      {
        test: {
          ...common,
          name: "database",
          include: [needingDatabase, "test/*.test.ts", `test/!(${folders.join("|")})/**/*.test.ts`],
          exclude: [replacingModules],
          isolate: false,
          globalSetup: ["test/support/database-server.ts"],
          setupFiles: ["test/support/run-at-end.ts"],
        },
      },
      {
        test: {
          ...common,
          name: "model",
          include: [replacingModules],
          globalSetup: ["test/support/database-server.ts"],
        },
      },
    ],
  },
});
