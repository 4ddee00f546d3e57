import { type Command, InvalidArgumentError, Option } from "commander";
import type { Context, Outcome } from "./command.ts";
import { readShard, type Shard } from "../jobs/services.ts";

interface Declaration {
  /** `run`, or `rejects list`. */
  readonly name: string;
  readonly summary: string;
  readonly arguments?: readonly (readonly [name: string, description: string])[];
  readonly options?: readonly Option[];
  /** Keys of its document that are present even after a failure. */
  readonly rest?: (flags: { readonly runId?: string; readonly dryRun?: boolean }) => object;
  /** Loads the modules of the command, which no other command has to load. */
  readonly load: () => Promise<Run>;
}

/** Runs a command. As a method of an interface, it may narrow its flags and arguments, which commander parsed. */
type Run = {
  run(context: Context, flags: object, ...args: readonly (string | readonly string[])[]): Promise<Outcome>;
}["run"];

const option = (flags: string, description: string, parse?: (text: string) => unknown): Option => {
  const declared = new Option(flags, description);
  return parse ? declared.argParser(parse) : declared;
};

const repeatable = (flags: string, description: string): Option =>
  // commander passes undefined before the first one.
  option(flags, description).argParser((value, before?: readonly string[]) => [...(before ?? []), value]);

/** Parses a whole number, bounds inclusive. */
function whole(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  const bounds = most === Number.MAX_SAFE_INTEGER ? "or more" : `to ${most}`;
  return (text) => {
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= least && value <= most) return value;
    throw new InvalidArgumentError(`Expected a whole number, ${least} ${bounds}.`);
  };
}

function shard(text: string): Shard {
  const found = readShard(text);
  if (found !== null) return found;
  throw new InvalidArgumentError("Expected I/N, with I from 0 to N - 1: 0/4, 1/4, 2/4 or 3/4.");
}

/** Parses the run ID of a scheduler (`scheduled__2026-11-20T01:15:00+00:00`). */
function runId(text: string): string {
  if (/^[\w.:+@/-]{1,200}$/.test(text)) return text;
  throw new InvalidArgumentError("Expected 1 to 200 letters, digits and . _ : + @ / -");
}

function month(text: string): string {
  if (/^\d{4}-(?:0[1-9]|1[0-2])$/.test(text)) return text;
  throw new InvalidArgumentError("Expected a month such as 2026-11.");
}

const yes = option("--yes", "Skip the confirmation");
const jobs = ["[jobs...]", "Configured jobs (default: all)"] as const;
const job = ["<job>", "Configured job"] as const;
const search = ["<search>", "Name of the search, or JOB/SEARCH"] as const;
const rejectFilter = [
  repeatable("--job <name>", "Only this job; repeatable"),
  repeatable("--code <code>", "Only this code; repeatable"),
  repeatable("--source-key <source/key>", "Only this input row; repeatable"),
];

/** Summaries of commands with subcommands. */
const groups: Readonly<Record<string, string>> = {
  checkpoint: "Show or change a job's checkpoints",
  rejects: "List, retry or drop records that could not be processed",
  runs: "List past runs, or show one",
  config: "Show the configuration in effect",
  audience: "List, show or unlock audiences",
};

const declarations: readonly Declaration[] = [
  {
    name: "init",
    summary:
      "Write a commented config.yaml with proposals from your tables (asks on a terminal, otherwise uses flags)",
    options: [
      option("--base-url <address>", "Address of the service, or `sandbox`"),
      option(
        "--api-key-env <name>",
        "Environment variable that holds the API key (default: PERSON_SERVICE_API_KEY)",
      ),
      option(
        "--warehouse-url-env <name>",
        "Environment variable that holds the postgresql:// address (default: the embedded database)",
      ),
      option("--add-input <name>", "Add an input and its jobs to the existing file; also a file: leads.csv"),
      option("--connection <name>", "With --add-input: connection of the table (default: the warehouse)"),
      option("--table <table>", "Table or view of people (`crm.customers`)"),
      option("--input <name>", "Name of the input (default: the table's)"),
      option("--key <columns>", "Key columns, separated by commas (default: the primary key)"),
      repeatable(
        "--field <field=columns>",
        "Column(s) for a field of the service, such as `emails=email,work_email`; repeatable (default: from the table)",
      ),
      option("--normalize", "Trim values, lowercase e-mail addresses, drop placeholders"),
      option("--no-normalize", "Send values as they are (default without a terminal)"),
    ],
    load: async () => (await import("./commands/init.ts")).init,
  },
  {
    name: "check",
    summary:
      "Check configuration, API key, endpoints, warehouse, privileges, inputs, queries, destinations and data_dir. Changes nothing.",
    rest: () => ({ checks: [] }),
    load: async () => (await import("./commands/check.ts")).check,
  },
  {
    name: "migrate",
    summary: "Create or upgrade the warehouse tables (`run` also does this)",
    options: [
      option("--print", "Print the DDL without changing anything"),
      option("--grants", "With --print: print roles and grants instead"),
      option("--accept-service <host>", "Accept a new address (host and port) of the same service"),
      option(
        "--accept-database",
        "After moving the database: take over its received responses and destinations",
      ),
    ],
    load: async () => (await import("./commands/migrate.ts")).migrate,
  },
  {
    name: "drop",
    summary:
      "Remove what a sandbox filled: tables, views, sample tables and local files (asks, or needs --yes)",
    options: [option("--trial", "Remove the trial; never works on data of another service"), yes],
    rest: () => ({ status: "failed" }),
    load: async () => (await import("./commands/drop.ts")).drop,
  },
  {
    name: "plan",
    summary:
      "Predict a run: due records and reasons, calls, estimated billed records and duration. Sends nothing.",
    arguments: [jobs],
    options: [
      option("--resend", "Predict `run --resend`"),
      option("--max-records <n>", "Predict `run --max-records n`", whole(0)),
      option("--shard <i/n>", "Predict `run --shard i/n`", shard),
      option(
        "--show <n>",
        "Print the first n records of each job with their personal data (with --json: the first n requests)",
        whole(1, 10),
      ),
    ],
    rest: () => ({ jobs: [] }),
    load: async () => (await import("./commands/plan.ts")).plan,
  },
  {
    name: "run",
    summary: "Run jobs once, in dependency order",
    arguments: [jobs],
    options: [
      option(
        "--full-refresh",
        "Re-read all data of free jobs (nothing is billed; unlike in dbt, no table is rebuilt)",
      ),
      option("--resend", "Send every record of the jobs again (asks for confirmation, or needs --yes)"),
      option("--max-records <n>", "Send at most this many records per job", whole(0)),
      option("--shard <i/n>", "Process one of n disjoint parts of the input (i from 0 to n - 1)", shard),
      option("--run-id <id>", "ID of this run, for orchestrators such as Airflow", runId),
      option(
        "--wait [duration]",
        "Wait for jobs that another process is running, instead of ending with exit code 4 (without a value: 10m)",
      ),
      option("--yes", "Skip all confirmations"),
      option("--dry-run", "Print the plan of this run, as `plan` does, and send nothing"),
      option(
        "--accept-parameters <choice>",
        "After a change of mapping or request parameters: pay for the responses again, or keep them",
      ).choices(["resend", "keep"]),
    ],
    rest: ({ runId = null, dryRun = false }) =>
      dryRun ? { jobs: [] } : { status: "failed", run_id: runId, jobs: [] },
    load: async () => (await import("./commands/run.ts")).run,
  },
  {
    name: "explain",
    summary:
      "Show why an input row is due or not, its request, results, rejects and calls. Prints personal data.",
    arguments: [["<source/key>", "Input name and key, such as customers/4711"]],
    load: async () => (await import("./commands/explain.ts")).explain,
  },
  {
    name: "schedule",
    summary: "Stay up and run jobs by their schedules. Serves a web page, /healthz, /readyz and /metrics.",
    load: async () => (await import("./commands/schedule.ts")).schedule,
  },
  {
    name: "publish",
    summary: "Bring the destinations under `publish:` up to date",
    arguments: [["[names...]", "Configured destinations (default: all)"]],
    options: [
      option("--verify", "Compare every table and republish those that differ"),
      option("--full", "Publish everything again"),
      option("--drop <name>", "Stop recording changes for a destination that is no longer configured"),
    ],
    rest: () => ({ destinations: [] }),
    load: async () => (await import("./commands/publish.ts")).publish,
  },
  {
    name: "status",
    summary:
      "Show problems, last runs, late jobs, coverage, checkpoints, budgets, records per day and rejects",
    rest: () => ({ jobs: [] }),
    load: async () => (await import("./commands/status.ts")).status,
  },
  {
    name: "runs list",
    summary: "List the last runs with their status and counts",
    options: [option("--limit <n>", "Show at most this many runs", whole(1)).default(20)],
    rest: () => ({ runs: [] }),
    load: async () => (await import("./commands/runs.ts")).list,
  },
  {
    name: "runs show",
    summary: "Show the summary of a run: jobs, counts, costs and errors",
    arguments: [["<run-id>", "ID of the run, or its first characters"]],
    load: async () => (await import("./commands/runs.ts")).show,
  },
  {
    name: "costs",
    summary: "Show what the invoice of a month should say, by endpoint and job, and what can't be known",
    options: [option("--month <month>", "UTC month, such as 2026-11 (default: the current one)", month)],
    rest: () => ({ lines: [] }),
    load: async () => (await import("./commands/costs.ts")).costs,
  },
  {
    name: "ui",
    summary: "Show runs, cost, usage, coverage and rejects in a browser. Runs no jobs.",
    options: [
      option("--port <n>", "Port of the page; 0 for any free one (default: http.port)", whole(0, 65_535)),
    ],
    load: async () => (await import("./commands/ui.ts")).ui,
  },
  {
    name: "checkpoint show",
    summary: "Show a job's checkpoints by stream, with their meaning",
    arguments: [job],
    load: async () => (await import("./commands/checkpoint.ts")).show,
  },
  {
    name: "checkpoint set",
    summary: "Change a checkpoint (asks for confirmation, or needs --yes)",
    arguments: [job, ["<cursor>", "Keys to change, as JSON; others are kept"]],
    options: [option("--stream <name>", "Stream of the checkpoint; required if the job has several"), yes],
    load: async () => (await import("./commands/checkpoint.ts")).set,
  },
  {
    name: "checkpoint reset",
    summary:
      "Delete a job's checkpoints, so that it starts from the beginning (asks for confirmation, or needs --yes)",
    arguments: [job],
    options: [option("--stream <name>", "Delete only the checkpoint of this stream"), yes],
    load: async () => (await import("./commands/checkpoint.ts")).reset,
  },
  {
    name: "rejects list",
    summary: "Count and list open rejects, with the meaning of their codes",
    options: [
      ...rejectFilter,
      option("--all", "Include resolved rejects"),
      option("--limit <n>", "Show at most this many records, newest first", whole(0)).default(20),
    ],
    load: async () => (await import("./commands/rejects.ts")).list,
  },
  {
    name: "rejects retry",
    summary: "Read and send rejected records again in the job's next run",
    options: [...rejectFilter, yes],
    load: async () => (await import("./commands/rejects.ts")).retry,
  },
  {
    name: "rejects drop",
    summary: "Resolve rejects without a retry; their rows are sent again only after a change",
    options: [...rejectFilter, yes],
    load: async () => (await import("./commands/rejects.ts")).drop,
  },
  {
    name: "erase",
    summary: "Remove people from all tables, files and destinations, and suppress them in later runs",
    options: [
      repeatable("--pid <pid>", "The person with this PID (repeatable; - reads standard input)"),
      repeatable("--email <address>", "Everyone with this address (repeatable; - reads standard input)"),
      repeatable(
        "--source-key <source/key>",
        "The person in this input row (repeatable; - reads standard input)",
      ),
      option("--dry-run", "Show what would be removed, and remove nothing"),
      option("--ignore-missing", "Exit with 0 even if no one is found"),
      option("--even-if-unknown", "Former name of --ignore-missing").hideHelp(),
      option("--remove-from-segments", "Also remove them from the service's segments"),
      option("--disk-gone <host:folder>", "Stop waiting for responses on a disk that is gone for good"),
      yes,
    ],
    rest: () => ({ status: "failed" }),
    load: async () => (await import("./commands/erase.ts")).erase,
  },
  {
    name: "search",
    summary: "Search for people once and print the result. Stores and unlocks nothing.",
    arguments: [["<query>", "Description of an audience"]],
    options: [option("--size <n>", "Maximum number of people, up to 100", whole(1)).default(10)],
    load: async () => (await import("./commands/search.ts")).search,
  },
  {
    name: "audience list",
    summary: "List the configured audiences with their state and size",
    rest: () => ({ audiences: [] }),
    load: async () => (await import("./commands/audience.ts")).list,
  },
  {
    name: "audience show",
    summary: "Show an audience with its demographics",
    arguments: [search],
    load: async () => (await import("./commands/audience.ts")).show,
  },
  {
    name: "audience unlock",
    summary: "Unlock a finished audience, which is billed (asks for confirmation, or needs --yes)",
    arguments: [search],
    options: [
      option("--max-billable <n>", "Largest charge (default: the size of the audience now)", whole(0)),
      yes,
    ],
    load: async () => (await import("./commands/audience.ts")).unlock,
  },
  {
    name: "sandbox",
    summary: "Run a local mock of the service with synthetic people, until Ctrl-C",
    options: [
      option("--port <n>", "Port to listen on, 0 for a free one", whole(0)).default(8787),
      option("--host <host>", "Address to listen on (default: 127.0.0.1)"),
      option("--people <n>", "Size of the population (default: 100000)", whole(1)),
      option("--seed <n>", "Seed of the population (default: 1)", whole(0)),
      option("--faults <plan>", "Faults to inject, such as 429=2:0.1@enrich,cut_body:0.05"),
      option("--latency <ms>", "Milliseconds of delay per response", whole(0)),
      option("--api-key <key>", "The only accepted key (default: any key that doesn't start with `revoked`)"),
    ],
    load: async () => (await import("./commands/sandbox.ts")).sandbox,
  },
  {
    name: "database",
    summary: "Keep the embedded database running for psql or a BI tool, until Ctrl-C",
    load: async () => (await import("./commands/database.ts")).database,
  },
  {
    name: "config show",
    summary:
      "Print the configuration in effect: defaults filled in, `${NAME}` and secrets as written, never their values",
    load: async () => (await import("./commands/config.ts")).show,
  },
  {
    name: "completion",
    summary: "Print a script that completes commands, options and job names in your shell",
    arguments: [["<shell>", "`bash`, `zsh` or `fish`"]],
    load: async () => (await import("./commands/completion.ts")).completion,
  },
];

/** Runs a parsed command. `rest` has keys of its document that are present even after a failure. */
export type Act = (
  command: Command,
  run: (context: Context) => Promise<Outcome>,
  rest: object,
) => Promise<void>;

export function addCommands(program: Command, act: Act): void {
  for (const { name, summary, load, rest, ...declared } of declarations) {
    const [first = "", second] = name.split(" ");
    const command = second === undefined ? program.command(first) : groupOf(program, first).command(second);
    command.description(summary);
    for (const [argument, description] of declared.arguments ?? []) command.argument(argument, description);
    for (const one of declared.options ?? []) command.addOption(one);
    command.action(async () => {
      const run = async (context: Context) =>
        (await load())(context, command.opts(), ...command.processedArgs);
      await act(command, run, rest?.(command.opts()) ?? {});
    });
  }
}

function groupOf(program: Command, name: string): Command {
  const group = program.commands.find((command) => command.name() === name);
  return group ?? program.command(name).description(groups[name] ?? "");
}
