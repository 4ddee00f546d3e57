import type { Command } from "commander";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { StopRunError } from "../../errors.ts";
import type { AddCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { UsageError } from "../failure.ts";
import type { Outcome } from "../outcome.ts";
import { wholeNumber } from "../parse-number.ts";
import { sandboxEnvironment, sandboxProgram } from "../sandbox-service.ts";

interface SandboxFlags {
  readonly port: number;
  readonly host?: string;
  readonly people?: number;
  readonly seed?: number;
  readonly faults?: string;
  readonly latency?: number;
  readonly apiKey?: string;
}

const DEFAULT_PORT = 8787;

/** `sandbox`: a local mock of the service. */
export const addSandbox: AddCommand = (program, act) => {
  program
    .command("sandbox")
    .description("run a local mock of the service with synthetic people, until Ctrl-C")
    .option("--port <n>", "port to listen on, 0 for a free one", wholeNumber(0), DEFAULT_PORT)
    .option("--host <host>", "address to listen on (default: 127.0.0.1)")
    .option("--people <n>", "size of the population (default: 1000000)", wholeNumber(1))
    .option("--seed <n>", "seed of the population (default: 1)", wholeNumber(0))
    .option("--faults <plan>", "faults to inject, such as 429=2:0.1@enrich,cut_body:0.05")
    .option("--latency <ms>", "milliseconds of delay per response", wholeNumber(0))
    .option("--api-key <key>", "the only accepted key (default: any key that doesn't start with `revoked`)")
    .action((flags: SandboxFlags, command: Command) => act(command, (context) => sandbox(context, flags)));
};

async function sandbox(context: Context, flags: SandboxFlags): Promise<Outcome> {
  const { stop, scope } = context;
  const child = spawn(process.execPath, [sandboxProgram(), ...argumentsOf(flags)], {
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
    env: sandboxEnvironment(context.env),
  });
  const ended = once(child, "close");
  scope.deferProgram("sandbox", async () => {
    child.stdin.end();
    child.kill("SIGTERM");
    await ended;
  });
  let stderrText = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderrText = (stderrText + text).slice(-4000);
  });
  child.stdout.setEncoding("utf8").once("data", (line: string) => {
    const address: { url: string; port: number } = JSON.parse(line);
    const keys = flags.apiKey === undefined ? "Any key works." : "Only the key of --api-key works.";
    void context.announce(address, `The sandbox is running at ${address.url} until Ctrl-C. ${keys}`);
  });
  await Promise.race([ended, context.untilStopped()]);
  if (stop.signal.aborted) return { document: null, text: "", exitCode: 0 };
  const [reason = "no output"] = stderrText.trim().split("\nusage:");
  if (child.exitCode === 2) throw new UsageError(reason);
  throw new StopRunError("sandbox_failed", `The sandbox ended unexpectedly: ${reason}`);
}

function argumentsOf(flags: SandboxFlags): string[] {
  const given = {
    port: flags.port,
    host: flags.host,
    people: flags.people,
    seed: flags.seed,
    faults: flags.faults,
    "latency-ms": flags.latency,
    "api-key": flags.apiKey,
  };
  return [
    ...Object.entries(given).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}=${value}`])),
    "--exit-with-parent",
  ];
}
