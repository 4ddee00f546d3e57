import { readFileSync } from "node:fs";

/** Paths from the sources and from the build, which is one folder deeper. */
const PLACES = ["../../package.json", "../../../package.json"];

/** Returns the version of this package. */
export function readVersion(): string {
  for (const place of PLACES) {
    try {
      const { name, version } = JSON.parse(readFileSync(new URL(place, import.meta.url), "utf8"));
      if (name === "person-etl" && typeof version === "string") return version;
    } catch {
      // Try the next path.
    }
  }
  return "unknown";
}

/** True if running from the sources. */
const isCheckout = import.meta.url.endsWith(".ts");

/** Command name for hints. */
export const programName = isCheckout ? "bin/person-etl" : "person-etl";

/** URL of another program of this package; `path` is relative to `src`, without extension. */
export function programFile(path: string): URL {
  return new URL(`../${path}.${isCheckout ? "ts" : "js"}`, import.meta.url);
}
