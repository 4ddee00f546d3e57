import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { inject, onTestFinished } from "vitest";
import { removeDatabase } from "./embedded-files.ts";
import { runSql } from "./run-sql.ts";

/** Another process that holds an embedded database. */
export interface Holder {
  readonly port: number;
  readonly url: string;
  readonly superuserUrl: string;
  readonly child: ChildProcess;
  /** Log lines so far. */
  logged(): string;
  /** Asks the process to close; returns its exit code. */
  close(): Promise<number | null>;
  /** Sends SIGKILL and waits until the process is gone. */
  kill(): Promise<void>;
}

/** Starts a process that opens a folder's embedded database, and waits until it is open. */
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
  // The holder writes this document.
  const { port, url, superuserUrl } = JSON.parse(first.value) as Pick<
    Holder,
    "port" | "url" | "superuserUrl"
  >;
  const end = async (): Promise<number | null> => {
    await exited;
    return child.exitCode;
  };
  return {
    port,
    url,
    superuserUrl,
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

/** A folder that every user can enter. After the test, servers in its `data-dir` are stopped and removed. */
export async function makeOpenFolder(): Promise<string> {
  const { folder, remove } = await makeLastingFolder();
  onTestFinished(remove);
  return folder;
}

/** The same for a whole file: return `remove` from its beforeAll. */
export async function makeLastingFolder(): Promise<{ folder: string; remove: () => Promise<void> }> {
  const folder = await mkdtemp(join(inject("runFolder"), "embedded-"));
  await chmod(folder, 0o755);
  const remove = async (): Promise<void> => {
    await removeDatabase(join(folder, "data-dir"));
    await rm(folder, { recursive: true, force: true });
  };
  return { folder, remove };
}

/** True if a server listens there and accepts our connection. */
export async function answers(url: string): Promise<boolean> {
  return await runSql(url, "SELECT 1").then(
    () => true,
    () => false,
  );
}
