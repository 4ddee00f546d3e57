import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cpuSeconds, peakResidentBytes, readTree } from "./process-tree.ts";

/** Resources used by a finished process. */
export type Measured = Awaited<ReturnType<typeof measure>>;

const SAMPLE_EVERY_MS = 100;

/** Runs a command and measures it from outside; throws if it fails. */
export async function measure(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
) {
  const startedAt = performance.now();
  const child = spawn(command, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  const pid = child.pid ?? 0;
  const peaks = { own: 0, tree: 0, cpu: 0 };
  const sample = () => {
    peaks.own = Math.max(peaks.own, peakResidentBytes(pid));
    peaks.tree = Math.max(
      peaks.tree,
      readTree(pid).reduce((sum, p) => sum + p.residentBytes, 0),
    );
    peaks.cpu = Math.max(peaks.cpu, cpuSeconds(pid));
  };
  const timer = setInterval(sample, SAMPLE_EVERY_MS);
  const [stdout, code] = await Promise.all([textOf(child), codeOf(child)]);
  clearInterval(timer);
  if (code !== 0) throw new Error(`${command} ${args.join(" ")} ended with ${code}: ${stdout}`);
  return {
    seconds: (performance.now() - startedAt) / 1000,
    /** CPU of the process and its descendants. */
    cpuSeconds: peaks.cpu,
    /** Largest resident memory of the Node process. */
    peakResidentBytes: peaks.own,
    /** Largest resident memory of the process and its descendants. */
    peakTreeBytes: peaks.tree,
    stdout,
  };
}

async function textOf(child: ChildProcess): Promise<string> {
  let text = "";
  child.stdout?.setEncoding("utf8");
  for await (const piece of child.stdout ?? []) text += String(piece);
  return text;
}

async function codeOf(child: ChildProcess): Promise<number | null> {
  const [code] = (await once(child, "exit")) as [number | null];
  return code;
}
