import type { Log } from "../../log.ts";
import type { Binaries } from "./binaries.ts";
import type { Place } from "./place.ts";

/** Everything needed to run one server. */
export interface Server {
  readonly place: Place;
  readonly binaries: Binaries;
  readonly password: string;
  readonly log: Log;
}
