import { join } from "node:path";
import type { DuckDbConnection } from "../../src/load/inputs/input.ts";

/** A connection for the files of a folder. */
export function filesIn(folder: string, changes: Partial<DuckDbConnection> = {}): DuckDbConnection {
  return {
    type: "duckdb",
    name: "files",
    path: null,
    s3Endpoint: null,
    s3Region: null,
    accessKeyId: null,
    secretAccessKey: null,
    webToken: null,
    places: () => ({ folder, scratch: join(folder, "scratch") }),
    ...changes,
  };
}
