import type { Log } from "../../log.ts";
import type { Binaries } from "./binaries.ts";
import type { ServerFolders } from "./folders.ts";

/** Everything needed to run one server. */
export interface Server {
  readonly folders: ServerFolders;
  readonly binaries: Binaries;
  readonly password: string;
  readonly log: Log;
}
