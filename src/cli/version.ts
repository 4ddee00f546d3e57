import { readFileSync } from "node:fs";
import { relative } from "node:path";
import { fileURLToPath } from "node:url";

/** Paths from the sources and from the build, which is one folder deeper. */
const PLACES = ["../../package.json", "../../../package.json"];

/** Returns the version of this package. */
export function readVersion(): string {
  return findPackage()?.version ?? "unknown";
}

/** Finds this package's folder and version. */
export function findPackage(): { readonly root: URL; readonly version: string } | null {
  for (const place of PLACES) {
    const file = new URL(place, import.meta.url);
    try {
      const { name, version } = JSON.parse(readFileSync(file, "utf8"));
      if (name === "person-etl" && typeof version === "string") return { root: new URL(".", file), version };
    } catch {
      // Try the next path.
    }
  }
  return null;
}

/** True if running from the sources. */
const isCheckout = import.meta.url.endsWith(".ts");

/** Command name for hints, to copy from the terminal: in a checkout, the path of its launcher. */
export const programName = isCheckout ? launcherFrom(process.cwd()) : "person-etl";

function launcherFrom(folder: string): string {
  const launcher = fileURLToPath(new URL("../../bin/person-etl", import.meta.url));
  const path = relative(folder, launcher);
  return path.startsWith("..") ? launcher : path;
}

/** URL of another program of this package; `path` is relative to `src`, without extension. */
export function programFile(path: string): URL {
  return new URL(`../${path}.${isCheckout ? "ts" : "js"}`, import.meta.url);
}
