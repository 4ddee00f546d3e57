import { createReadStream, readFileSync } from "node:fs";
import { pipeline } from "node:stream/promises";
import { Client } from "pg";
import { from as copyFrom } from "pg-copy-streams";

/**
 * The loading half of the floor: plain COPY of ready rows into new keyed tables, over several connections.
 * `node bench/floor-copy.ts URL LIST CONNECTIONS`; LIST names a JSON file of `[table, file]` pairs.
 */
const [url = "", list = "", connections = "2"] = process.argv.slice(2);
const pending = JSON.parse(readFileSync(list, "utf8")) as [string, string][];

async function work(): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  for (let next = pending.shift(); next; next = pending.shift()) {
    const [table, file] = next;
    await pipeline(
      createReadStream(file, { highWaterMark: 1 << 20 }),
      client.query(copyFrom(`COPY ${table} FROM STDIN`)),
    );
  }
  await client.end();
}

await Promise.all(Array.from({ length: Number(connections) }, work));
