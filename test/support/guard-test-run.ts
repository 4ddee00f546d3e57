/**
 * A process that outlives its test run. It creates the run's folder and, with `embedded`, holds the database in
 * it. At the end of the run (a line on stdin, or when that closes) it stops every server in the folder and
 * removes it. Prints one JSON line: `folder`, and `url` or null.
 */
import { once } from "node:events";
import { chmod, mkdtemp, readdir, readFile, rm, statfs } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { openEmbedded } from "../../src/load/embedded/open.ts";
import { silentLog } from "../../src/log.ts";
import { removeDatabase } from "./embedded-files.ts";

/** Bytes that all suites together never write at a time. */
const ENOUGH_BYTES = 8 * 1024 ** 3;

// Ctrl-C is for the test run.
for (const signal of ["SIGINT", "SIGHUP"] as const) process.on(signal, () => {});

const folder = await mkdtemp(join(await fastFolder(), "person-etl-test-"));
try {
  // As root, servers run as another user, who needs access.
  await chmod(folder, 0o755);
  const dataDir = join(folder, "shared");
  const server = process.argv[2] === "embedded" ? await openEmbedded({ dataDir, log: silentLog }) : null;
  if (server) await saveNoData(server.superuserUrl);
  process.stdout.write(`${JSON.stringify({ folder, url: server?.superuserUrl ?? null })}\n`);
  let endedInOrder = false;
  process.stdin.on("data", () => {
    endedInOrder = true;
  });
  await once(process.stdin, "close");
  // Workers of a killed run may continue for a moment.
  if (!endedInOrder) await delay(3_000);
  await server?.close();
} finally {
  for (const server of ["bigquery/pid", "iceberg/moto.pid", "iceberg/nessie.pid"])
    await endServer(join(folder, server));
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const isControl = entry.name === "start.lock" && basename(entry.parentPath) === "postgres";
    if (isControl) await removeDatabase(join(entry.parentPath, ".."));
  }
  await rm(folder, { recursive: true, force: true });
}

/** Memory, where a machine has plenty: tests create and remove tens of thousands of files. */
async function fastFolder(): Promise<string> {
  const free = await statfs("/dev/shm").catch(() => null);
  return free && free.bavail * free.bsize >= ENOUGH_BYTES ? "/dev/shm" : tmpdir();
}

/** Data need not survive a crash of the machine, and passwords protect nothing. Makes creating databases ten times faster, and connecting a third. */
async function saveNoData(superuserUrl: string): Promise<void> {
  const client = new Client({ connectionString: superuserUrl });
  await client.connect();
  for (const setting of ["fsync = off", "full_page_writes = off", "scram_iterations = 1"])
    await client.query(`ALTER SYSTEM SET ${setting}`);
  await client.query("SELECT pg_reload_conf()");
  const password = client.escapeLiteral(decodeURIComponent(new URL(superuserUrl).password));
  await client.query(`SET scram_iterations = 1; ALTER ROLE CURRENT_USER PASSWORD ${password}`);
  await client.end();
}

/** These servers outlive the test file that started them: see bigquery/emulator.ts and iceberg/start-judges.ts. */
async function endServer(pidFile: string): Promise<void> {
  const pid = Number(await readFile(pidFile, "utf8").catch(() => 0));
  if (!Number.isInteger(pid) || pid <= 0) return;
  try {
    process.kill(pid, "SIGKILL");
    await delay(200);
  } catch {
    // Already ended.
  }
}
