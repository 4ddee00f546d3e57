import { readFile } from "node:fs/promises";
import { installPython, type PythonEnvironment } from "../../test/support/python-environment.ts";

const LOCK = new URL("requirements.txt", import.meta.url);

/** Installs dlt and what it needs as the lock file states, by hash; about 300 MB. */
export async function installDlt(): Promise<PythonEnvironment> {
  const hashed = await readFile(LOCK, "utf8");
  return installPython({ name: "dlt", minors: [11, 13], before: "2026-11-20", installs: [], hashed });
}

/** Versions of packages in the lock file. */
export async function versionsOfDlt(names: readonly string[]): Promise<Record<string, string>> {
  const lock = await readFile(LOCK, "utf8");
  const versions = [...lock.matchAll(/^([\w.-]+)(?:\[\w+\])?==([\w.]+)/gmu)];
  return Object.fromEntries(
    versions
      .map(([, name = "", version = ""]) => [name, version] as const)
      .filter(([name]) => names.includes(name)),
  );
}
