import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { Pool } from "undici";

/**
 * The fetching half of the floor: sends the request bodies of a file (one per line) and parses the answers.
 * `node bench/floor-fetch.ts URL PATH FILE CALLS_IN_FLIGHT`
 */
const [url = "", path = "", file = "", inFlight = "8"] = process.argv.slice(2);
const pool = new Pool(url, { connections: Number(inFlight) });
const unzip = promisify(gunzip);
const lines = createInterface({ input: createReadStream(file) })[Symbol.asyncIterator]();
let results = 0;

async function work(): Promise<void> {
  for (let line = await lines.next(); line.done !== true; line = await lines.next()) {
    const { body, headers } = await pool.request({
      method: "POST",
      path,
      headers: { "content-type": "application/json", "x-api-key": "bench", "accept-encoding": "gzip" },
      body: line.value,
    });
    const bytes = Buffer.from(await body.arrayBuffer());
    const plain = headers["content-encoding"] === "gzip" ? await unzip(bytes, { chunkSize: 1 << 22 }) : bytes;
    const answer = JSON.parse(plain.toString("utf8")) as { results: unknown[] };
    results += answer.results.length;
  }
}

await Promise.all(Array.from({ length: Number(inFlight) }, work));
await pool.close();
process.stdout.write(`${results}\n`);
