import { globSync } from "node:fs";
import { defineConfig } from "vitest/config";

const FILES = "{test,packages/*/test}/**/*.slow.ts";

/** Files about money, received answers and erased people, which each part runs. */
const ALWAYS = [
  "test/{crash,faults,nights}/**/*.slow.ts",
  "test/cli/{drop,erase,publish,quiet,searches,shards,spool}.slow.ts",
  "test/jobs/{locks,erase/*,lookup/kept-answers}.slow.ts",
];

/** Each part has a third of the other files. */
const PARTS = 3;

/** All files; with PERSON_ETL_TEST_PART, a whole number, those of a part. */
function included(): readonly string[] {
  const part = process.env["PERSON_ETL_TEST_PART"];
  if (part === undefined) return [FILES];
  const always = globSync(ALWAYS);
  const others = globSync(FILES).filter((file) => !always.includes(file));
  return [...always, ...others.toSorted().filter((_, i) => (i + Number(part)) % PARTS === 0)];
}

/**
 * Whole processes, crashes, faults, fuzz and long histories: `npm run test:slow`.
 * Generated suites run in part; PERSON_ETL_TEST_SIZE=full runs them whole.
 */
export default defineConfig({
  test: {
    include: [...included()],
    testTimeout: 600_000,
    hookTimeout: 300_000,
    // Most tests wait for processes.
    maxWorkers: 4,
    // Totals and seeds are part of the outcome.
    disableConsoleIntercept: true,
    globalSetup: ["test/support/database-server.ts"],
    setupFiles: ["test/support/run-at-end.ts"],
  },
});
