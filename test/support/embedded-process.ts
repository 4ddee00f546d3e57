import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Client } from "pg";
import { onTestFinished } from "vitest";

/** Another process that holds an embedded database. */
export interface Holder {
  readonly port: number;
  readonly url: string;
  readonly child: ChildProcess;
  /** What it logged so far. */
  logged(): string;
  /** Asks it to close; its exit code. */
  close(): Promise<number | null>;
  /** SIGKILL, and waits until it is gone. */
  kill(): Promise<void>;
}

/** Starts a process that opens the embedded database of a folder, and waits until it has. */
export async function startHolder(
  dataDir: string,
  options: { readonly binaries?: string; readonly uid?: number } = {},
): Promise<Holder> {
  const child = spawn(
    process.execPath,
    [
      fileURLToPath(new URL("hold-embedded.ts", import.meta.url)),
      dataDir,
      options.binaries ?? "",
      String(options.uid ?? ""),
    ],
    { stdio: ["pipe", "pipe", "pipe"], detached: true },
  );
  let logged = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    logged += text;
  });
  const exited = once(child, "exit");
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await exited;
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const first = await lines.next();
  if (first.done) throw new Error(`the holder ended before it was open: ${logged}`);
  // The holder writes exactly this.
  const { port, url } = JSON.parse(first.value) as { port: number; url: string };
  const end = async (): Promise<number | null> => {
    await exited;
    return child.exitCode;
  };
  return {
    port,
    url,
    child,
    logged: () => logged,
    close: () => {
      child.stdin.write("close\n");
      return end();
    },
    kill: async () => {
      child.kill("SIGKILL");
      await end();
    },
  };
}

/** A folder that every user can enter; when the test ends, what runs and lies in its `data-dir` is removed. */
export async function makeOpenFolder(): Promise<string> {
  const { folder, remove } = await makeLastingFolder();
  onTestFinished(remove);
  return folder;
}

/** The same for a whole file: return `remove` from its beforeAll. */
export async function makeLastingFolder(): Promise<{ folder: string; remove: () => Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), "person-etl-embedded-"));
  await chmod(folder, 0o755);
  return { folder, remove: () => removeFolder(folder, join(folder, "data-dir")) };
}

/** Ends the server of a data_dir, wherever it keeps its data, and removes both. */
async function removeFolder(folder: string, dataDir: string): Promise<void> {
  const home = await homeOf(dataDir);
  const pid = await postmasterPid(dataDir);
  if (pid !== null && isAlive(pid)) {
    process.kill(pid, "SIGQUIT");
    await waitUntilGone(pid);
  }
  await rm(home, { recursive: true, force: true });
  await rm(folder, { recursive: true, force: true });
}

/** Where the server of a data_dir keeps its data. */
export async function homeOf(dataDir: string): Promise<string> {
  const control = join(dataDir, "postgres");
  return (await readFile(join(control, "location"), "utf8").catch(() => control)).trim();
}

/** The first line of `postmaster.pid`, or null if there is no such file. */
export async function postmasterPid(dataDir: string): Promise<number | null> {
  const path = join(await homeOf(dataDir), "data", "postmaster.pid");
  const text = await readFile(path, "utf8").catch(() => null);
  return text === null ? null : Number.parseInt(text, 10);
}

/** True while a process runs; a dead one that nobody has collected does not. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Waits for the end of a process that isn't our child. */
export async function waitUntilGone(pid: number): Promise<void> {
  for (let waitedMs = 0; isAlive(pid) && waitedMs < 10_000; waitedMs += 20) await delay(20);
  if (isAlive(pid)) throw new Error(`process ${pid} still runs`);
}

/** Runs one statement in a session of its own. */
export async function runSql(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end().catch(() => {});
  }
}

/** True if something listens there and lets us in. */
export async function answers(url: string): Promise<boolean> {
  return await runSql(url, "SELECT 1").then(
    () => true,
    () => false,
  );
}
