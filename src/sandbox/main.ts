import { parseArgs } from "node:util";
import { FixConfigurationError, messageOf } from "../errors.ts";
import { parseFaults, type Sandbox, type SandboxOptions, startSandbox } from "./start-sandbox.ts";

/**
 * The sandbox as a program of its own: prints `{"url": …, "port": …}` on one line once it answers, and runs until
 * SIGINT, SIGTERM or, with `--exit-with-parent`, the end of its standard input.
 */

const USAGE =
  "usage: main.ts [--port N] [--host H] [--seed N] [--people N] [--api-key KEY] [--faults PLAN] [--latency-ms N] [--no-contents] [--no-gzip] [--state FILE] [--exit-with-parent]";

function readOptions(args: readonly string[]): SandboxOptions & { readonly exitsWithParent: boolean } {
  const { values } = parseArgs({
    args: [...args],
    options: {
      port: { type: "string" },
      host: { type: "string" },
      seed: { type: "string" },
      people: { type: "string" },
      "api-key": { type: "string" },
      faults: { type: "string" },
      "latency-ms": { type: "string" },
      "no-contents": { type: "boolean", default: false },
      "no-gzip": { type: "boolean", default: false },
      state: { type: "string" },
      "exit-with-parent": { type: "boolean", default: false },
    },
  });
  const wholeNumber = (name: "port" | "seed" | "people" | "latency-ms", otherwise: number): number => {
    const text = values[name];
    if (text === undefined) return otherwise;
    if (!/^\d+$/.test(text)) {
      throw new FixConfigurationError("bad_usage", `--${name} takes a whole number.`);
    }
    return Number(text);
  };
  return {
    port: wholeNumber("port", 0),
    seed: wholeNumber("seed", 1),
    ...(values.people === undefined ? {} : { people: wholeNumber("people", 0) }),
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

function stopOn(sandbox: Sandbox, exitsWithParent: boolean): void {
  const stop = () => {
    void sandbox.close().finally(() => process.exit(0));
  };
  process.once("SIGINT", stop).once("SIGTERM", stop);
  if (exitsWithParent) process.stdin.once("end", stop).once("close", stop).once("error", stop).resume();
}

try {
  const options = readOptions(process.argv.slice(2));
  const sandbox = await startSandbox(options);
  stopOn(sandbox, options.exitsWithParent);
  process.stdout.write(`${JSON.stringify({ url: sandbox.url, port: sandbox.port })}\n`);
} catch (error) {
  const problems = error instanceof FixConfigurationError ? error.problems : [];
  const lines = [
    messageOf(error),
    ...problems.map((problem) => `  ${problem.path}: ${problem.message}`),
    USAGE,
  ];
  process.stderr.write(`${lines.join("\n")}\n`);
  process.exitCode = 2;
}
