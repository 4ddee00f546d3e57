import type { Command } from "commander";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { StopRunError } from "../../errors.ts";
import type { AddCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { UsageError } from "../failure.ts";
import type { Outcome } from "../outcome.ts";
import { wholeNumber } from "../parse-number.ts";
import { sandboxProgram } from "../sandbox-service.ts";

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

/** `sandbox`: the service as a program, to try things against. */
export const addSandbox: AddCommand = (program, act) => {
  program
    .command("sandbox")
    .description("run the service locally over a synthetic population, until Ctrl-C")
    .option("--port <n>", "port to listen on, 0 for a free one", wholeNumber(0), DEFAULT_PORT)
    .option("--host <host>", "address to listen on (default: 127.0.0.1)")
    .option("--people <n>", "size of the population (default: 1000000)", wholeNumber(1))
    .option("--seed <n>", "which population (default: 1)", wholeNumber(0))
    .option("--faults <plan>", "faults to inject, such as 429=2:0.1@enrich,cut_body:0.05")
    .option("--latency <ms>", "milliseconds to wait before every answer", wholeNumber(0))
    .option("--api-key <key>", "the only accepted key (default: any that doesn't begin with `revoked`)")
    .action((flags: SandboxFlags, command: Command) => act(command, (context) => sandbox(context, flags)));
};

async function sandbox(context: Context, flags: SandboxFlags): Promise<Outcome> {
  const { stop, scope } = context;
  const child = spawn(process.execPath, [sandboxProgram(), ...argumentsOf(flags)], {
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
  });
  const ended = once(child, "close");
  scope.deferProgram("sandbox", async () => {
    child.stdin.end();
    child.kill("SIGTERM");
    await ended;
  });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    said = (said + text).slice(-4000);
  });
  child.stdout.setEncoding("utf8").once("data", (line: string) => {
    const address: { url: string; port: number } = JSON.parse(line);
    void context.announce(address, `The sandbox runs at ${address.url} until Ctrl-C. Any key works.`);
  });
  await Promise.race([ended, once(stop.signal, "abort")]);
  if (stop.signal.aborted) return { document: null, text: "", exitCode: 0 };
  const [reason = "no output"] = said.trim().split("\nusage:");
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
