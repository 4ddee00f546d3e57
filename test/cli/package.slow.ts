import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";

const root = new URL("../..", import.meta.url).pathname;

function run(command: string, args: readonly string[], cwd = root): string {
  return execFileSync(command, args, { cwd, encoding: "utf8" });
}

test("the package runs as users install it: packed, without sources, through its launcher", () => {
  const folder = mkdtempSync(join(tmpdir(), "person-etl-package-"));
  try {
    run("npm", ["run", "--silent", "build"]);
    const packed = run("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", folder]);
    const home = join(folder, "node_modules", "person-etl");
    mkdirSync(home, { recursive: true });
    const archive = join(folder, packed.trim().split("\n").at(-1) ?? "");
    run("tar", ["xzf", archive, "--strip-components=1", "-C", home]);
    // Dependencies are those of the checkout: only the package's own content is tested.
    symlinkSync(join(root, "node_modules"), join(home, "node_modules"));
    expect(run(join(home, "bin/person-etl"), ["--version"])).toMatch(/^\d+\.\d+\.\d+/);
    const migrate = ["--config", "config.example.yaml", "migrate", "--print"];
    expect(run(join(home, "bin/person-etl"), migrate, home)).toMatch(/CREATE TABLE "person_data"\."person"/);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
