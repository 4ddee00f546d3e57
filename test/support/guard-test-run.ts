/**
 * A process that outlives its test run: it makes the run's folder and, asked with `embedded`, holds the database in
 * it. When the run ends, however it ends (at its line on stdin, or when that closes), it stops every server that runs in the folder and
 * removes all. Prints one JSON line: `folder`, and `url` or null.
 */
import { once } from "node:events";
import { chmod, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { openEmbedded } from "../../src/load/embedded/open-embedded.ts";
import { silentLog } from "../../src/log.ts";
import { removeDatabase } from "./embedded-files.ts";

// A Ctrl-C in the terminal is for the run.
for (const signal of ["SIGINT", "SIGHUP"] as const) process.on(signal, () => {});

const folder = await mkdtemp(join(tmpdir(), "person-etl-test-"));
try {
  // As root the servers run as somebody else, who has to pass.
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
  // A run that was killed may have workers that go on for a moment.
  if (!endedInOrder) await delay(3_000);
  await server?.close();
} finally {
  await endEmulator(join(folder, "bigquery", "pid"));
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const isControl = entry.name === "start.lock" && basename(entry.parentPath) === "postgres";
    if (isControl) await removeDatabase(join(entry.parentPath, ".."));
  }
  await rm(folder, { recursive: true, force: true });
}

/** Nothing in it has to survive a crash of the machine: creating and dropping databases takes a tenth of the time. */
async function saveNoData(superuserUrl: string): Promise<void> {
  const client = new Client({ connectionString: superuserUrl });
  await client.connect();
  for (const setting of ["fsync", "full_page_writes", "wal_compression"])
    await client.query(`ALTER SYSTEM SET ${setting} = off`);
  await client.query("SELECT pg_reload_conf()");
  await client.end();
}

/** The emulator outlives the test file that started it: see bigquery-emulator.ts. */
async function endEmulator(pidFile: string): Promise<void> {
  const pid = Number(await readFile(pidFile, "utf8").catch(() => 0));
  if (!Number.isInteger(pid) || pid <= 0) return;
  try {
    process.kill(pid, "SIGKILL");
    await delay(200);
  } catch {
    // It has ended by itself.
  }
}
