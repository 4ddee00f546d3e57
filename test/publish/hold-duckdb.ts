import { once } from "node:events";
import { openDuckDbDestination } from "../../src/publish/duckdb/destination.ts";

// Publishes to readers, as another process of a test does, and stays open until standard input ends: `node hold-duckdb.ts PATH FOLDER`.
const [path = "", folder = ""] = process.argv.slice(2);
const schemas = { data: "person_data", ops: "person_data_ops" };
const destination = openDuckDbDestination({ name: "local", path, folder, schemas });
await destination.finish();
process.stdout.write("held\n");
process.stdin.resume();
await once(process.stdin, "end");
await destination.close();
