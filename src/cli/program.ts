import { Command, CommanderError } from "commander";
import { once } from "node:events";
import { adviceFor } from "../advice.ts";
import {
  type Act,
  type AddCommand,
  addGlobalOptions,
  type Context,
  createScope,
  failedOutcome,
  type GlobalOptions,
  globalOptionsOf,
  type Outcome,
} from "./command.ts";
import { addAudience } from "./commands/audience.ts";
import { addCheck } from "./commands/check.ts";
import { addCheckpoint } from "./commands/checkpoint.ts";
import { addDatabase } from "./commands/database.ts";
import { addErase } from "./commands/erase.ts";
import { addExplain } from "./commands/explain.ts";
import { addInit } from "./commands/init.ts";
import { addMigrate } from "./commands/migrate.ts";
import { addPlan } from "./commands/plan.ts";
import { addPublish } from "./commands/publish.ts";
import { addRejects } from "./commands/rejects.ts";
import { addRun } from "./commands/run.ts";
import { addSandbox } from "./commands/sandbox.ts";
import { addSchedule } from "./commands/schedule.ts";
import { addSearch } from "./commands/search.ts";
import { addStatus } from "./commands/status.ts";
import { addUi } from "./commands/ui.ts";
import { failureOf, interrupted, UsageError } from "./failure.ts";
import { createScrubber, type Scrubber } from "./output.ts";
import { readVersion } from "./package.ts";
import { LAST_CLOSE_MS, listenForSignals } from "./signals.ts";
import { openTerminal, type Terminal } from "./terminal.ts";
import { systemClock } from "../clock.ts";
import { FixConfigurationError } from "../errors.ts";

/** All commands, in the order of the help. */
const COMMANDS: readonly AddCommand[] = [
  addInit,
  addCheck,
  addMigrate,
  addPlan,
  addRun,
  addExplain,
  addSchedule,
  addPublish,
  addStatus,
  addUi,
  addCheckpoint,
  addRejects,
  addErase,
  addSearch,
  addAudience,
  addSandbox,
  addDatabase,
];

/** Declares all commands. */
function addCommands(program: Command, act: Act): void {
  for (const add of COMMANDS) add(program, act);
}

/** Parses the arguments, runs the command, prints the result, and returns the exit code. */
export async function runCommandLine(argv: readonly string[]): Promise<number> {
  const scrubber = createScrubber();
  let options: GlobalOptions = { config: null, json: argv.includes("--json"), logLevel: null };
  let terminal: Terminal | null = null;
  let outcome: Outcome | null = null;
  let helpText = "";

  const program = new Command("person-etl")
    .description("Sends rows of your tables to a person data service and stores the answers in Postgres.")
    .version(readVersion(), "-V, --version", "print the version")
    .exitOverride()
    .configureOutput({
      writeOut: (text) => {
        helpText += text;
      },
      writeErr: () => {},
    })
    .configureHelp({ showGlobalOptions: true });
  addGlobalOptions(program);
  addCommands(program, async (command, run, rest = {}) => {
    options = globalOptionsOf(command);
    terminal = openTerminal(options, scrubber);
    outcome = await runCommand({ terminal, options, scrubber, name: command.name() }, run, rest);
  });

  try {
    await program.parseAsync([...argv], { from: "user" });
  } catch (error) {
    const text = helpText.trimEnd();
    outcome =
      error instanceof CommanderError && error.exitCode === 0
        ? { document: { text }, text, exitCode: 0 }
        : failedOutcome(failureOf(error instanceof CommanderError ? usageErrorOf(error) : error));
  }
  terminal ??= openTerminal(options, scrubber);
  return await report(terminal, options, outcome ?? failedOutcome(failureOf(new UsageError("No command."))));
}

/** Refuses a variable that turns off the verification of certificates in libraries, whoever is called. */
function refuseUnverified(): void {
  if (process.env["NODE_TLS_REJECT_UNAUTHORIZED"] !== "0") return;
  const { means, next } = adviceFor("verification_off");
  throw new FixConfigurationError("verification_off", `${means} ${next}`);
}

/** A command as it was called. */
interface Invocation {
  readonly terminal: Terminal;
  readonly options: GlobalOptions;
  readonly scrubber: Scrubber;
  readonly name: string;
}

/** Runs a command, stops it on a signal, and closes what it opened. */
async function runCommand(
  { terminal, options, scrubber, name }: Invocation,
  run: (context: Context) => Promise<Outcome>,
  rest: object,
): Promise<Outcome> {
  const { log, ask } = terminal;
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
  try {
    const context: Context = {
      options,
      env: process.env,
      log,
      scrubber,
      progress: terminal.progress,
      notify(sentence) {
        if (terminal.isWatched && log.shows("warn")) terminal.printError(sentence);
      },
      stop,
      async untilStopped() {
        isIdle = true;
        if (!stop.signal.aborted) await once(stop.signal, "abort");
      },
      scope,
      widthColumns: terminal.widthColumns,
      async announce(document, text) {
        isAnnounced = true;
        await print(terminal, options, document, text);
      },
      isWatched: terminal.isWatched,
      ask:
        ask &&
        ((question, signal) => ask(question, signal ? AbortSignal.any([stop.signal, signal]) : stop.signal)),
    };
    refuseUnverified();
    return await Promise.race([run(context), stray.promise, stop.overdue]);
  } catch (error) {
    log.debug({ error }, "command_threw");
    const exitCode = stop.exitCode();
    const failure = failureOf(error, `running \`${name}\``);
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
async function report(terminal: Terminal, options: GlobalOptions, outcome: Outcome): Promise<number> {
  const { document, text, exitCode, failure } = outcome;
  const isUsage = failure?.code === "usage";
  if (failure && !terminal.isWatched && !isUsage) {
    const { code, message, problems } = failure;
    terminal.log.error({ code, message, problems, exit_code: exitCode }, "command_failed");
  }
  if (failure && (terminal.isWatched || isUsage) && !options.json) terminal.printError(text);
  else await print(terminal, options, document, text);
  terminal.restore();
  return terminal.isBroken() ? exitCode || 1 : exitCode;
}

async function print(
  terminal: Terminal,
  options: GlobalOptions,
  document: object | null,
  text: string,
): Promise<void> {
  if (!options.json) {
    if (text !== "") await terminal.print(text);
  } else if (document !== null) {
    await terminal.print(JSON.stringify(document, null, terminal.widthColumns === null ? 0 : 2));
  }
}

function usageErrorOf(error: CommanderError): UsageError {
  if (error.code === "commander.help") return new UsageError("No command given. See person-etl --help.");
  const message = error.message
    .replace(/^error: /, "")
    .replaceAll("\n", " ")
    .replace(/\.$/, "");
  return new UsageError(`${message.charAt(0).toUpperCase()}${message.slice(1)}. See person-etl --help.`);
}
