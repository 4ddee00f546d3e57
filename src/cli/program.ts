import { type Command, CommanderError } from "commander";
import { once } from "node:events";
import { type Context, createScope, failedOutcome, type Outcome } from "./command.ts";
import { localized, createProgram, usageErrorOf } from "./command-tree.ts";
import { failureOf, interrupted, UsageError, withLines } from "./failure.ts";
import { layOut } from "./output.ts";
import { LAST_CLOSE_MS, listenForSignals } from "./signals.ts";
import type { GlobalOptions, Terminal } from "./terminal.ts";
import { adviceFor } from "../advice.ts";
import { systemClock } from "../clock.ts";
import { FixConfigurationError } from "../errors.ts";

/** Parses the arguments, runs the command, prints the result, and returns the exit code. */
export async function runCommandLine(argv: readonly string[]): Promise<number> {
  let options: GlobalOptions = { config: null, json: argv.includes("--json"), logLevel: null };
  let terminal: Terminal | null = null;
  let outcome: Outcome | null = null;
  let helpText = "";

  const program = createProgram(
    async (command, run, rest) => {
      const {
        config = null,
        json = false,
        logLevel = null,
      } = command.optsWithGlobals<Partial<GlobalOptions>>();
      options = { config, json, logLevel };
      terminal = await openTerminal(program, options);
      outcome = await runCommand({ terminal, options, program, name: command.name() }, run, rest);
    },
    (text) => {
      helpText += text;
    },
  );

  try {
    await program.parseAsync([...argv], { from: "user" });
  } catch (error) {
    const text = helpText.trimEnd();
    outcome =
      error instanceof CommanderError && error.exitCode === 0
        ? { document: { text }, text, exitCode: 0 }
        : failedOutcome(
            failureOf(error instanceof CommanderError ? usageErrorOf(program, argv, error) : error),
          );
  }
  terminal ??= await openTerminal(program, options);
  return await report(
    { terminal, options, program },
    outcome ?? failedOutcome(failureOf(new UsageError("No command."))),
  );
}

async function openTerminal(program: Command, options: GlobalOptions): Promise<Terminal> {
  const terminal = await (await import("./terminal.ts")).openTerminal(options);
  if (options.json) return terminal;
  return {
    ...terminal,
    printError: (text) => terminal.printError(localized(program, text, options.config)),
  };
}

/** Refuses a variable that turns off the verification of certificates, also in libraries. */
function refuseUnverified(): void {
  if (process.env["NODE_TLS_REJECT_UNAUTHORIZED"] !== "0") return;
  const { means, next } = adviceFor("verification_off");
  throw new FixConfigurationError("verification_off", `${means} ${next}`);
}

/** Where the result is printed, and how. */
interface Output extends Pick<Context, "options" | "program"> {
  readonly terminal: Terminal;
}

interface Started extends Output {
  readonly name: string;
}

/** Runs a command, stops it on a signal, and closes what it opened. */
async function runCommand(
  { terminal, options, program, name }: Started,
  run: (context: Context) => Promise<Outcome>,
  rest: object,
): Promise<Outcome> {
  const { log } = terminal;
  const scope = createScope(log);
  let isIdle = false;
  const stop = listenForSignals({
    first(signal) {
      if (isIdle) return;
      const hint = "calls in flight are finished and kept; a second signal stops at once";
      log.warn({ signal, hint }, "stopping");
    },
    async second() {
      terminal.restore();
      await scope.closePrograms();
    },
  });
  // An unhandled error ends the command like any other one: reported without a stack trace.
  const stray = Promise.withResolvers<never>();
  process.on("uncaughtException", stray.reject);
  let isAnnounced = false;
  const loaded: Context["loaded"] = { lineOf: () => null };
  const { ask } = terminal;
  try {
    const context: Context = {
      ...terminal,
      options,
      loaded,
      program,
      env: process.env,
      localize: (message) => localized(program, message, options.config),
      scope,
      stop,
      async untilStopped() {
        isIdle = true;
        if (!stop.signal.aborted) await once(stop.signal, "abort");
      },
      async announce(document, text) {
        isAnnounced = true;
        await print({ terminal, options, program }, { document, text });
      },
      notify(sentence) {
        if (terminal.isWatched && log.shows("warn")) terminal.printError(sentence);
      },
      ask:
        ask &&
        ((question, signal) => ask(question, signal ? AbortSignal.any([stop.signal, signal]) : stop.signal)),
    };
    refuseUnverified();
    return await Promise.race([run(context), stray.promise, stop.overdue]);
  } catch (error) {
    log.debug({ error }, "command_threw");
    const exitCode = stop.exitCode();
    const failure = withLines(failureOf(error, `running \`${name}\``), loaded.lineOf);
    const isStopped = exitCode !== null && !failure.isOurs;
    const outcome = isStopped
      ? failedOutcome(interrupted(exitCode), "status" in rest ? { ...rest, status: "interrupted" } : rest)
      : failedOutcome(failure, rest);
    return isAnnounced ? { ...outcome, document: null } : outcome;
  } finally {
    // A connection that doesn't close must not keep the process, other programs must not outlive it.
    await Promise.race([scope.close(), stop.overdue]).catch(() =>
      Promise.race([scope.closePrograms(), systemClock.sleep(LAST_CLOSE_MS)]),
    );
    stop.close();
  }
}

/**
 * Prints the result to standard output. Failures on a terminal and wrong command lines are messages on standard error;
 * other failures are logged, too.
 */
async function report(output: Output, outcome: Outcome): Promise<number> {
  const { terminal, options } = output;
  const { text, exitCode, failure } = outcome;
  const isUsage = failure?.code === "usage";
  if (failure && !terminal.isWatched && !isUsage) {
    const { code, message, problems } = failure;
    terminal.log.error({ code, message, problems, exit_code: exitCode }, "command_failed");
  }
  if (failure && (terminal.isWatched || isUsage) && !options.json) terminal.printError(layOut(text, null));
  else await print(output, outcome);
  terminal.restore();
  return terminal.isBroken() ? exitCode || 1 : exitCode;
}

async function print(
  { terminal, options: { json, config }, program }: Output,
  { document, text, isData = false }: Pick<Outcome, "document" | "text" | "isData">,
): Promise<void> {
  const laidOut = json ? "" : layOut(text, terminal.widthColumns);
  if (laidOut !== "") await terminal.print(isData ? laidOut : localized(program, laidOut, config));
  if (json && document !== null) {
    await terminal.print(JSON.stringify(document, null, terminal.widthColumns === null ? 0 : 2));
  }
}
