import { spawn } from "node:child_process";
import { parse } from "node:path";
import type { ServerUser } from "./server-user.ts";

/** Result of a finished program. */
interface ProgramResult {
  /** Exit code; null if it could not be started or a signal ended it. */
  readonly code: number | null;
  /** End of its standard output and error, or the reason why it didn't start. */
  readonly output: string;
}

const KEPT_OUTPUT = 65_536;

/** Runs a program as the server's user, in its own process group, so that Ctrl-C doesn't reach it. Throws only if aborted. */
export async function runProgram(
  file: string,
  args: readonly string[],
  options: { readonly user: ServerUser | null; readonly signal?: AbortSignal | undefined },
): Promise<ProgramResult> {
  options.signal?.throwIfAborted();
  const { promise, resolve } = Promise.withResolvers<ProgramResult>();
  let output = "";
  const keep = (chunk: string): void => {
    output = (output + chunk).slice(-KEPT_OUTPUT);
  };
  let child: ReturnType<typeof spawn>;
  try {
    child = spawn(file, args, {
      // All users can enter the root folder.
      cwd: parse(file).root,
      detached: true,
      windowsHide: true,
      stdio: ["ignore", "pipe", "pipe"],
      // The server must not inherit PG… variables.
      env: process.platform === "win32" ? process.env : { LC_ALL: "C", TZ: "UTC", PATH: "/usr/bin:/bin" },
      ...(options.user ? { uid: options.user.uid, gid: options.user.gid } : {}),
    });
  } catch (error) {
    return { code: null, output: String(error) };
  }
  child.stdout?.setEncoding("utf8").on("data", keep);
  child.stderr?.setEncoding("utf8").on("data", keep);
  child.once("error", (error) => resolve({ code: null, output: String(error) }));
  child.once("close", (code) => resolve({ code, output }));

  const stop = (): void => endGroup(child.pid);
  options.signal?.addEventListener("abort", stop, { once: true });
  try {
    const result = await promise;
    options.signal?.throwIfAborted();
    return result;
  } finally {
    options.signal?.removeEventListener("abort", stop);
  }
}

/** Ends the program and its children. */
function endGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(process.platform === "win32" ? pid : -pid, "SIGTERM");
  } catch {
    // Already ended.
  }
}
