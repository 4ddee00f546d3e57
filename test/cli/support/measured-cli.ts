import { readFile } from "node:fs/promises";
import { type CliOptions, type CliResult, startCli } from "./cli.ts";

const SAMPLE_EVERY_MS = 50;

/** Runs the real program until it ends, and measures the largest resident memory of its process, in MiB. */
export async function runMeasured(
  args: readonly string[],
  options: CliOptions,
): Promise<CliResult & { readonly peakMebibytes: number }> {
  const { child, result } = startCli(args, options);
  let peakMebibytes = 0;
  const sample = async () => {
    const status = await readFile(`/proc/${child.pid}/status`, "utf8").catch(() => "");
    peakMebibytes = Math.max(peakMebibytes, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024);
  };
  const timer = setInterval(() => void sample(), SAMPLE_EVERY_MS);
  const ended = await result;
  clearInterval(timer);
  return { ...ended, peakMebibytes };
}
