import { strict as assert } from "node:assert";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The package as users install it: packed, unpacked elsewhere without sources, run through its launcher. */
const root = new URL("../..", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "person-etl-package-"));

try {
  const packed = execFileSync("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", folder], {
    cwd: root,
    encoding: "utf8",
  });
  const home = join(folder, "node_modules", "person-etl");
  mkdirSync(home, { recursive: true });
  execFileSync("tar", [
    "xzf",
    join(folder, packed.trim().split("\n").at(-1) ?? ""),
    "--strip-components=1",
    "-C",
    home,
  ]);
  // Its dependencies are those of the checkout: what is under test is the package's own content.
  symlinkSync(join(root, "node_modules"), join(home, "node_modules"));
  const version = execFileSync(join(home, "bin/person-etl"), ["--version"], { encoding: "utf8" });
  assert.match(version, /^\d+\.\d+\.\d+/);
  const ddl = execFileSync(
    join(home, "bin/person-etl"),
    ["--config", "config.example.yaml", "migrate", "--print"],
    {
      cwd: home,
      encoding: "utf8",
    },
  );
  assert.match(ddl, /CREATE TABLE "person_data"\."person"/);
  process.stdout.write(`package ${version.trim()} runs from its built files\n`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
