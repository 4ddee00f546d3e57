import { once } from "node:events";
import { DuckDBInstance } from "@duckdb/node-api";

// Holds a DuckDB file open, as an analyst's session does, until standard input ends.
const instance = await DuckDBInstance.create(process.argv[2]);
const connection = await instance.connect();
await connection.run("SELECT 1");
process.stdout.write("held\n");
process.stdin.resume();
await once(process.stdin, "end");
