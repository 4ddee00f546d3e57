import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Pool } from "undici";
import { sampleInputs } from "../packages/sandbox/src/sample-inputs.ts";

/**
 * Measures enriched records per second of a sandbox process, for a client that discards the bodies.
 * `node bench/sandbox-rate.ts [RECORDS]` prints one line per encoding, with the sandbox's CPU time.
 */

const records = Number(process.argv[2] ?? 100_000);
const people = 1_000_000;
const BATCH = 500;
const CALLS_IN_FLIGHT = 4;

/** Request bodies of matched records, created before the measurement. */
function makeBodies(): readonly string[] {
  const bodies: string[] = [];
  let batch: object[] = [];
  for (const row of sampleInputs({ seed: 1, people, rows: records * 2 })) {
    if (row.email === null || row.email.includes("elsewhere")) continue;
    batch.push({
      record_id: String(row.id),
      first_name: row.first_name,
      last_name: row.last_name,
      emails: [row.email],
    });
    if (batch.length < BATCH) continue;
    bodies.push(JSON.stringify({ records: batch }));
    batch = [];
    if (bodies.length * BATCH >= records) break;
  }
  return bodies;
}

/** CPU seconds of a process, all threads; NaN where there is no /proc. */
function cpuSeconds(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
    return (Number(fields[11]) + Number(fields[12])) / 100;
  } catch {
    return Number.NaN;
  }
}

async function measure(
  url: string,
  pid: number,
  bodies: readonly string[],
  encoding: "identity" | "gzip",
): Promise<string> {
  const pool = new Pool(url, { connections: CALLS_IN_FLIGHT });
  const cpuBefore = cpuSeconds(pid);
  const startedMs = performance.now();
  let bytes = 0;
  let next = 0;
  const client = async () => {
    for (let body = bodies[next++]; body !== undefined; body = bodies[next++]) {
      const headers = {
        "x-api-key": "bench",
        "content-type": "application/json",
        "accept-encoding": encoding,
      };
      const response = await pool.request({ path: "/v2/enrich", method: "POST", headers, body });
      for await (const chunk of response.body) bytes += Buffer.byteLength(chunk);
    }
  };
  await Promise.all(Array.from({ length: CALLS_IN_FLIGHT }, client));
  const seconds = (performance.now() - startedMs) / 1000;
  const cpu = cpuSeconds(pid) - cpuBefore;
  await pool.close();
  const sent = bodies.length * BATCH;
  return `${encoding}: ${Math.round(sent / seconds)} records/s, ${Math.round(bytes / sent)} bytes a record, ${((cpu / sent) * 1000).toFixed(4)} CPU s per 1,000 records (${Math.round(sent / cpu)} records per CPU s)`;
}

const main = fileURLToPath(new URL("../packages/sandbox/src/main.ts", import.meta.url));
const child = spawn(process.execPath, [main, "--people", String(people), "--exit-with-parent"], {
  stdio: ["pipe", "pipe", "inherit"],
});
const [line] = await once(createInterface(child.stdout), "line");
const { url } = JSON.parse(String(line));
const bodies = makeBodies();
const pid = child.pid ?? 0;
await measure(url, pid, bodies.slice(0, 20), "identity"); // warms the engine up
for (const encoding of ["identity", "gzip"] as const) {
  process.stdout.write(`${await measure(url, pid, bodies, encoding)}\n`);
}
child.stdin.end();
