import { readFileSync } from "node:fs";

/** From the sources, and from what was built of them, one folder deeper. */
const PLACES = ["../../package.json", "../../../package.json"];

/** The version of this package. */
export function readVersion(): string {
  for (const place of PLACES) {
    try {
      const { name, version } = JSON.parse(readFileSync(new URL(place, import.meta.url), "utf8"));
      if (name === "person-etl" && typeof version === "string") return version;
    } catch {
      // Not there: the next place.
    }
  }
  return "unknown";
}

/** True when this runs from a checkout's sources. */
const isCheckout = import.meta.url.endsWith(".ts");

/** Command that the user calls this program by, for hints. */
export const programName = isCheckout ? "bin/person-etl" : "person-etl";

/** The address of another program of this package, given from `src`, without ending. */
export function programFile(path: string): URL {
  return new URL(`../${path}.${isCheckout ? "ts" : "js"}`, import.meta.url);
}
