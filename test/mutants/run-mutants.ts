import { spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { z } from "zod";
import { type Mutant, mutants } from "./mutants.ts";

/**
 * Changes one line of a money-critical file at a time, in a copy of the checkout, and runs the tests that guard it.
 * Fails if all of them pass, or if a line of the list is gone. `--part 1/4` runs a quarter of the list.
 */
const root = new URL("../..", import.meta.url).pathname;
const { values } = parseArgs({
  options: { part: { type: "string", default: "0/1" }, only: { type: "string" } },
});
const [index = 0, count = 1] = values.part.split("/").map(Number);
const wanted = mutants.filter(
  (mutant, i) => i % count === index && (values.only === undefined || mutant.breaks.includes(values.only)),
);
if (wanted.length === 0) throw new Error("No mutant fits --part and --only.");

const report = z.object({ numPassedTests: z.number(), numFailedTests: z.number() });
const copy = mkdtempSync(join(tmpdir(), "person-etl-mutants-"));
// Servers that refuse to run as root start here as another user.
chmodSync(copy, 0o755);
const survivors: string[] = [];
let caught = 0;
try {
  const listed = spawnSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], {
    cwd: root,
    encoding: "utf8",
  });
  for (const file of listed.stdout.split("\n").filter((name) => name !== "" && name !== "node_modules")) {
    mkdirSync(dirname(join(copy, file)), { recursive: true });
    cpSync(join(root, file), join(copy, file));
  }
  symlinkSync(join(root, "node_modules"), join(copy, "node_modules"));
  const stale = mutants.filter(isStale);
  for (const { breaks, file } of stale) process.stdout.write(`stale: ${breaks}: change ${file} here, too\n`);
  if (stale.length > 0) process.exitCode = 1;
  else {
    for (const mutant of wanted) {
      if (isCaught(mutant)) caught += 1;
      else survivors.push(mutant.breaks);
    }
  }
} finally {
  rmSync(copy, { recursive: true, force: true });
}
process.stdout.write(`${caught} mutants caught, ${survivors.length} survived\n`);
for (const name of survivors) process.stdout.write(`survived: ${name}\n`);
if (survivors.length > 0) process.exitCode = 1;

function isStale({ file, from }: Mutant): boolean {
  return readFileSync(join(copy, file), "utf8").split(from).length !== 2;
}

/** True if a test fails. A file that can't be loaded, or without a matching test, proves nothing. */
function isCaught({ breaks, file, from, to, tests, named, config }: Mutant): boolean {
  const path = join(copy, file);
  const before = readFileSync(path, "utf8");
  writeFileSync(
    path,
    before.replace(from, () => to),
  );
  const startedAt = performance.now();
  const outputFile = join(copy, "mutant-report.json");
  const args = ["node_modules/vitest/vitest.mjs", "run", "--bail=1", "--maxWorkers=2", "--reporter=json"];
  const { status } = spawnSync(
    process.execPath,
    [
      ...args,
      `--outputFile=${outputFile}`,
      ...(config ? ["--config", config] : []),
      ...(named ? ["-t", named] : []),
      ...tests,
    ],
    {
      cwd: copy,
      stdio: "ignore",
      env: {
        ...process.env,
        PATH: `${join(root, "node_modules/.bin")}:${process.env["PATH"] ?? ""}`,
        // A part of the suites may lack the tests of a mutant.
        PERSON_ETL_TEST_PART: undefined,
      },
    },
  );
  writeFileSync(path, before);
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  const { numPassedTests: passed, numFailedTests: failed } = report.parse(
    JSON.parse(readFileSync(outputFile, "utf8")),
  );
  const verdict =
    failed > 0 ? "caught" : status !== 0 ? "BROKEN" : passed === 0 ? "NO SUCH TEST" : "SURVIVED";
  process.stdout.write(`${verdict} (${seconds} s): ${breaks}\n`);
  return failed > 0;
}
