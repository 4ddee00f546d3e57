import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Config } from "../config/config.ts";
import { StopRunError } from "../errors.ts";
import type { Context } from "./context.ts";
import { programFile } from "./version.ts";

const START_TIMEOUT_MS = 30_000;
const END_TIMEOUT_MS = 2_000;

/** Path of the sandbox program. */
export function sandboxProgram(): string {
  return fileURLToPath(programFile("sandbox/main"));
}

/** Environment of the sandbox: without keys and addresses, which it doesn't need. */
export function sandboxEnvironment(env: Context["env"]): Record<string, string | undefined> {
  const names = ["PATH", "SystemRoot", "NODE_COMPILE_CACHE"];
  return Object.fromEntries(names.map((name) => [name, env[name]]));
}

/**
 * Starts the sandbox service and returns its address. It runs in its own process group, so that Ctrl-C doesn't reach it
 * while calls are in flight, and exits with this process.
 */
export async function startSandboxService(
  context: Context,
  { sandbox, dataDir }: Pick<Config, "sandbox" | "dataDir">,
): Promise<string> {
  const { log, scope, stop } = context;
  const child = spawn(
    process.execPath,
    [
      sandboxProgram(),
      "--port=0",
      `--seed=${sandbox.seed}`,
      `--people=${sandbox.people}`,
      "--no-contents",
      // Keeps segments between runs.
      `--state=${join(dataDir, `sandbox-${sandbox.seed}-${sandbox.people}.json`)}`,
      "--exit-with-parent",
    ],
    { detached: true, stdio: ["pipe", "pipe", "pipe"], env: sandboxEnvironment(context.env) },
  );
  await once(child, "spawn");
  scope.deferProgram("sandbox", () => endChild(child));
  let stderrText = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderrText = (stderrText + text).slice(-2000);
  });
  const url = await Promise.race([
    readUrl(child),
    once(child, "exit").then(() => null),
    delay(START_TIMEOUT_MS, null, { signal: stop.signal }),
  ]);
  if (url === null) {
    throw new StopRunError(
      "sandbox_failed",
      `The sandbox service didn't start: ${stderrText.trim() || "no output"}`,
    );
  }
  log.info({ url, seed: sandbox.seed, people: sandbox.people }, "sandbox_started");
  return url;
}

/** Reads the address from the program's first line. */
async function readUrl(child: ChildProcess): Promise<string | null> {
  let text = "";
  for await (const chunk of child.stdout?.setEncoding("utf8").iterator({ destroyOnReturn: false }) ?? []) {
    text += chunk;
    if (!text.includes("\n")) continue;
    const { url } = JSON.parse(text);
    return typeof url === "string" ? url : null;
  }
  return null;
}

async function endChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.stdin?.end();
  child.kill("SIGTERM");
  const waiting = new AbortController();
  await Promise.race([ended, delay(END_TIMEOUT_MS, undefined, { signal: waiting.signal }).catch(() => {})]);
  waiting.abort();
  if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
}
