import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { type Mutant, mutants } from "./mutants.ts";

/**
 * Changes one line of a money-critical file at a time, in a copy of the checkout, and runs the tests that guard it.
 * Fails if all of them pass, or if the line isn't there any more. `--part 1/4` runs a quarter of the list.
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

const copy = mkdtempSync(join(tmpdir(), "person-etl-mutants-"));
const survivors: string[] = [];
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
  for (const mutant of wanted) if (!isCaught(mutant)) survivors.push(mutant.breaks);
} finally {
  rmSync(copy, { recursive: true, force: true });
}
process.stdout.write(`${wanted.length - survivors.length} mutants caught, ${survivors.length} survived\n`);
for (const name of survivors) process.stdout.write(`survived: ${name}\n`);
process.exitCode = survivors.length === 0 ? 0 : 1;

function isCaught({ breaks, file, from, to, tests, config }: Mutant): boolean {
  const path = join(copy, file);
  const before = readFileSync(path, "utf8");
  if (before.split(from).length !== 2) {
    process.stdout.write(`stale: ${breaks}: ${file} has ${before.split(from).length - 1} places to change\n`);
    return false;
  }
  writeFileSync(
    path,
    before.replace(from, () => to),
  );
  const startedAt = performance.now();
  const args = ["node_modules/vitest/vitest.mjs", "run", "--bail=1", "--maxWorkers=2"];
  const { status } = spawnSync(
    process.execPath,
    [...args, ...(config ? ["--config", config] : []), ...tests],
    {
      cwd: copy,
      stdio: "ignore",
      env: { ...process.env, PATH: `${join(root, "node_modules/.bin")}:${process.env["PATH"] ?? ""}` },
    },
  );
  writeFileSync(path, before);
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  process.stdout.write(`${status === 0 ? "SURVIVED" : "caught"} (${seconds} s): ${breaks}\n`);
  return status !== 0;
}
