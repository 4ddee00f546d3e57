import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

const root = new URL("../..", import.meta.url).pathname;

function run(
  command: string,
  args: readonly string[],
  cwd = root,
  env: NodeJS.ProcessEnv = process.env,
): string {
  return execFileSync(command, args, { cwd, env, encoding: "utf8" });
}

// npm installs a hundred packages, most of them from its cache.
const TIME_LIMIT_MS = 300_000;

test(
  "the tarball of npm pack installs globally, and its command runs without anything else of this machine",
  () => {
    const folder = mkdtempSync(join(tmpdir(), "person-etl-package-"));
    try {
      run("npm", ["run", "--silent", "build"]);
      const packed = run("npm", ["pack", "--silent", "--ignore-scripts", "--pack-destination", folder]);
      const archive = join(folder, packed.trim().split("\n").at(-1) ?? "");
      const prefix = join(folder, "prefix");
      run("npm", ["install", "--global", "--prefix", prefix, "--no-audit", "--no-fund", archive], folder);
      const home = join(prefix, "lib/node_modules/person-etl");
      // A Node.js on PATH that is too old, so that only the package's own can run the program.
      run(
        "sh",
        ["-c", "mkdir bin && printf '#!/bin/sh\\necho v18.0.0\\n' > bin/node && chmod +x bin/node"],
        folder,
      );
      const env = { PATH: `${join(prefix, "bin")}:${join(folder, "bin")}:/usr/bin:/bin`, HOME: folder };
      const etl = (...args: readonly string[]) => run("person-etl", args, folder, env);
      expect(etl("--version")).toMatch(/^\d+\.\d+\.\d+/);
      const config = join(home, "config.example.yaml");
      expect(etl("--config", config, "migrate", "--print")).toMatch(/CREATE TABLE "person_data"\."person"/);
      const page = resolve(folder, /^Documentation: (.*)$/mu.exec(etl("run", "--help"))?.[1] ?? "");
      expect(page.startsWith(home) && readFileSync(page, "utf8").startsWith("# ")).toBe(true);
      expect(etl("completion", "bash")).toContain("complete -o default -F _person_etl person-etl");
      const schema = readFileSync(join(home, "docs/reference/commands.schema.json"), "utf8");
      expect(Object.keys(JSON.parse(schema).$defs)).toContain("run");
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
  TIME_LIMIT_MS,
);
