import { parseArgs } from "node:util";
import { SandboxError, messageOf } from "./sandbox-error.ts";
import { parseFaults, type SandboxOptions, startSandbox } from "./start-sandbox.ts";
import { DEFAULT_PEOPLE } from "./world.ts";

/**
 * The sandbox as a program: prints `{"url": …, "port": …}` once it answers, and runs until SIGINT, SIGTERM or, with
 * `--exit-with-parent`, the end of its standard input.
 */

const USAGE =
  "usage: main.ts [--port N] [--host H] [--seed N] [--people N] [--api-key KEY] [--faults PLAN] [--latency-ms N] [--no-contents] [--no-gzip] [--state FILE] [--exit-with-parent]";
const text = { type: "string" } as const;
const flag = { type: "boolean", default: false } as const;

function readOptions(args: readonly string[]): SandboxOptions & { readonly exitsWithParent: boolean } {
  const { values } = parseArgs({
    args: [...args],
    options: {
      port: text,
      host: text,
      seed: text,
      people: text,
      "api-key": text,
      faults: text,
      "latency-ms": text,
      "no-contents": flag,
      "no-gzip": flag,
      state: text,
      "exit-with-parent": flag,
    },
  });
  const wholeNumber = (name: "port" | "seed" | "people" | "latency-ms", otherwise: number): number => {
    const value = values[name] ?? String(otherwise);
    if (/^\d+$/.test(value)) return Number(value);
    throw new SandboxError(`--${name} must be a whole number.`);
  };
  return {
    port: wholeNumber("port", 0),
    seed: wholeNumber("seed", 1),
    people: wholeNumber("people", DEFAULT_PEOPLE),
    ...(values.host === undefined ? {} : { host: values.host }),
    ...(values["api-key"] === undefined ? {} : { apiKey: values["api-key"] }),
    faults: parseFaults(values.faults ?? ""),
    latencyMs: wholeNumber("latency-ms", 0),
    countsContents: !values["no-contents"],
    compresses: !values["no-gzip"],
    ...(values.state === undefined ? {} : { stateFile: values.state }),
    exitsWithParent: values["exit-with-parent"],
  };
}

try {
  const options = readOptions(process.argv.slice(2));
  const sandbox = await startSandbox(options);
  const stop = () => void sandbox.close().finally(() => process.exit(0));
  process.once("SIGINT", stop).once("SIGTERM", stop);
  if (options.exitsWithParent) {
    process.stdin.once("end", stop).once("close", stop).once("error", stop).resume();
  }
  process.stdout.write(`${JSON.stringify({ url: sandbox.url, port: sandbox.port })}\n`);
} catch (error) {
  const problems = error instanceof SandboxError ? error.problems : [];
  const lines = problems.map((problem) => `  ${problem.path}: ${problem.message}`);
  process.stderr.write(`${[messageOf(error), ...lines, USAGE].join("\n")}\n`);
  process.exitCode = 2;
}
