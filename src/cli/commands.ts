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
  readonly rest?: (flags: { readonly runId?: string }) => object;
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

const yes = option("--yes", "skip the confirmation");
const jobs = ["[jobs...]", "configured jobs (default: all)"] as const;
const job = ["<job>", "configured job"] as const;
const search = ["<search>", "name of the search, or JOB/SEARCH"] as const;
const rejectFilter = [
  repeatable("--job <name>", "only this job; repeatable"),
  repeatable("--code <code>", "only this code; repeatable"),
  repeatable("--source-key <source/key>", "only this input row; repeatable"),
];

/** Summaries of commands with subcommands. */
const groups: Readonly<Record<string, string>> = {
  checkpoint: "show or change a job's checkpoints",
  rejects: "list, retry or drop records that could not be processed",
  audience: "list, show or unlock audiences",
};

const declarations: readonly Declaration[] = [
  {
    name: "init",
    summary:
      "write a commented config.yaml with proposals from your tables (asks on a terminal, otherwise uses flags)",
    options: [
      option("--base-url <address>", "address of the service, or `sandbox`"),
      option(
        "--api-key-env <name>",
        "environment variable that holds the API key (default: PERSON_SERVICE_API_KEY)",
      ),
      option(
        "--warehouse-url-env <name>",
        "environment variable that holds the postgresql:// address (default: the embedded database)",
      ),
      option("--add-input <name>", "add an input and its jobs to the existing file; also a file: leads.csv"),
      option("--connection <name>", "with --add-input: connection of the table (default: the warehouse)"),
      option("--table <table>", "table or view of people (`crm.customers`)"),
      option("--input <name>", "name of the input (default: the table's)"),
      option("--key <columns>", "key columns, separated by commas (default: the primary key)"),
      repeatable(
        "--field <field=columns>",
        "column(s) for a field of the service, such as `emails=email,work_email`; repeatable (default: from the table)",
      ),
      option("--normalize", "trim values, lowercase e-mail addresses, drop placeholders"),
      option("--no-normalize", "send values as they are (default without a terminal)"),
    ],
    load: async () => (await import("./commands/init.ts")).init,
  },
  {
    name: "check",
    summary:
      "check configuration, API key, endpoints, warehouse, privileges, inputs, queries, destinations and data_dir; changes nothing",
    rest: () => ({ checks: [] }),
    load: async () => (await import("./commands/check.ts")).check,
  },
  {
    name: "migrate",
    summary: "create or upgrade the warehouse tables (`run` also does this)",
    options: [
      option("--print", "print the DDL without changing anything"),
      option("--grants", "with --print: print roles and grants instead"),
      option("--accept-service <host>", "accept a new address (host and port) of the same service"),
      option(
        "--accept-database",
        "after moving the database: take over its received responses and destinations",
      ),
    ],
    load: async () => (await import("./commands/migrate.ts")).migrate,
  },
  {
    name: "plan",
    summary:
      "predict a run: due records and reasons, calls, estimated billed records and duration; sends nothing",
    arguments: [jobs],
    options: [
      option("--resend", "predict `run --resend`"),
      option("--max-records <n>", "predict `run --max-records n`", whole(0)),
      option("--shard <i/n>", "predict `run --shard i/n`", shard),
      // Requests are held in memory.
      option(
        "--show <n>",
        "print the first n requests of each job, with the personal data in them",
        whole(1, 10),
      ),
    ],
    rest: () => ({ jobs: [] }),
    load: async () => (await import("./commands/plan.ts")).plan,
  },
  {
    name: "run",
    summary: "run jobs once, in dependency order",
    arguments: [jobs],
    options: [
      option(
        "--full-refresh",
        "re-read all data of free jobs (nothing is billed; unlike in dbt, no table is rebuilt)",
      ),
      option("--resend", "send every record of the jobs again (asks for confirmation, or needs --yes)"),
      option("--max-records <n>", "send at most this many records per job", whole(0)),
      option("--shard <i/n>", "process one of n disjoint parts of the input (i from 0 to n - 1)", shard),
      option("--run-id <id>", "ID of this run, for orchestrators such as Airflow", runId),
      option(
        "--wait [duration]",
        "wait for jobs that another process is running, instead of ending with exit code 4 (without a value: 10m)",
      ).preset("10m"),
      option("--yes", "skip all confirmations"),
      option(
        "--accept-parameters <choice>",
        "after a change of mapping or request parameters: pay for the responses again, or keep them",
      ).choices(["resend", "keep"]),
    ],
    rest: ({ runId = null }) => ({ status: "failed", run_id: runId, jobs: [] }),
    load: async () => (await import("./commands/run.ts")).run,
  },
  {
    name: "explain",
    summary:
      "show why an input row is due or not, its request, results, rejects and calls (prints personal data)",
    arguments: [["<source/key>", "input name and key, such as customers/4711"]],
    load: async () => (await import("./commands/explain.ts")).explain,
  },
  {
    name: "schedule",
    summary:
      "stay up and run jobs by their schedules; serve a page for browsers, /healthz, /readyz and /metrics",
    load: async () => (await import("./commands/schedule.ts")).schedule,
  },
  {
    name: "publish",
    summary: "bring the destinations under `publish:` up to date",
    arguments: [["[names...]", "configured destinations (default: all)"]],
    options: [
      option("--verify", "compare every table and republish those that differ"),
      option("--full", "publish everything again"),
      option("--drop <name>", "stop recording changes for a destination that is no longer configured"),
    ],
    rest: () => ({ destinations: [] }),
    load: async () => (await import("./commands/publish.ts")).publish,
  },
  {
    name: "status",
    summary:
      "show problems, last runs, late jobs, coverage, checkpoints, budgets, records per day and rejects",
    rest: () => ({ jobs: [] }),
    load: async () => (await import("./commands/status.ts")).status,
  },
  {
    name: "costs",
    summary: "show what the invoice of a month should say, by endpoint and job, and what can't be known",
    options: [option("--month <month>", "UTC month, such as 2026-11 (default: the current one)", month)],
    rest: () => ({ lines: [] }),
    load: async () => (await import("./commands/costs.ts")).costs,
  },
  {
    name: "ui",
    summary: "show runs, cost, usage, coverage and rejects in a browser; runs no jobs",
    options: [
      option("--port <n>", "port of the page; 0 for any free one (default: http.port)", whole(0, 65_535)),
    ],
    load: async () => (await import("./commands/ui.ts")).ui,
  },
  {
    name: "checkpoint show",
    summary: "show a job's checkpoints by stream, with their meaning",
    arguments: [job],
    load: async () => (await import("./commands/checkpoint.ts")).show,
  },
  {
    name: "checkpoint set",
    summary: "change a checkpoint (asks for confirmation, or needs --yes)",
    arguments: [job, ["<cursor>", "keys to change, as JSON; others are kept"]],
    options: [option("--stream <name>", "stream of the checkpoint; required if the job has several"), yes],
    load: async () => (await import("./commands/checkpoint.ts")).set,
  },
  {
    name: "checkpoint reset",
    summary:
      "delete a job's checkpoints, so that it starts from the beginning (asks for confirmation, or needs --yes)",
    arguments: [job],
    options: [option("--stream <name>", "delete only the checkpoint of this stream"), yes],
    load: async () => (await import("./commands/checkpoint.ts")).reset,
  },
  {
    name: "rejects list",
    summary: "count and list open rejects, with the meaning of their codes",
    options: [
      ...rejectFilter,
      option("--all", "include resolved rejects"),
      option("--limit <n>", "show at most this many records, newest first", whole(0)).default(20),
    ],
    load: async () => (await import("./commands/rejects.ts")).list,
  },
  {
    name: "rejects retry",
    summary: "read and send rejected records again in the job's next run",
    options: [...rejectFilter, yes],
    load: async () => (await import("./commands/rejects.ts")).retry,
  },
  {
    name: "rejects drop",
    summary: "resolve rejects without a retry; their rows are sent again only after a change",
    options: [...rejectFilter, yes],
    load: async () => (await import("./commands/rejects.ts")).drop,
  },
  {
    name: "erase",
    summary: "remove people from all tables, files and destinations, and suppress them in later runs",
    options: [
      repeatable("--pid <pid>", "the person with this PID (repeatable; - reads standard input)"),
      repeatable("--email <address>", "everyone with this address (repeatable; - reads standard input)"),
      repeatable(
        "--source-key <source/key>",
        "the person in this input row (repeatable; - reads standard input)",
      ),
      option("--dry-run", "show what would be removed; remove nothing"),
      option("--even-if-unknown", "exit with 0 even if no one is found"),
      option("--remove-from-segments", "also remove them from the service's segments"),
      option("--disk-gone <host:folder>", "stop waiting for responses on a disk that is permanently lost"),
      yes,
    ],
    rest: () => ({ status: "failed" }),
    load: async () => (await import("./commands/erase.ts")).erase,
  },
  {
    name: "search",
    summary: "search for people once and print the result; nothing is stored or unlocked",
    arguments: [["<query>", "description of an audience"]],
    options: [option("--size <n>", "maximum number of people, up to 100", whole(1)).default(10)],
    load: async () => (await import("./commands/search.ts")).search,
  },
  {
    name: "audience list",
    summary: "list the configured audiences with their state and size",
    rest: () => ({ audiences: [] }),
    load: async () => (await import("./commands/audience.ts")).list,
  },
  {
    name: "audience show",
    summary: "show an audience with its demographics",
    arguments: [search],
    load: async () => (await import("./commands/audience.ts")).show,
  },
  {
    name: "audience unlock",
    summary: "unlock a finished audience, which is billed (asks for confirmation, or needs --yes)",
    arguments: [search],
    options: [
      option("--max-billable <n>", "largest charge (default: the size of the audience now)", whole(0)),
      yes,
    ],
    load: async () => (await import("./commands/audience.ts")).unlock,
  },
  {
    name: "sandbox",
    summary: "run a local mock of the service with synthetic people, until Ctrl-C",
    options: [
      option("--port <n>", "port to listen on, 0 for a free one", whole(0)).default(8787),
      option("--host <host>", "address to listen on (default: 127.0.0.1)"),
      option("--people <n>", "size of the population (default: 1000000)", whole(1)),
      option("--seed <n>", "seed of the population (default: 1)", whole(0)),
      option("--faults <plan>", "faults to inject, such as 429=2:0.1@enrich,cut_body:0.05"),
      option("--latency <ms>", "milliseconds of delay per response", whole(0)),
      option("--api-key <key>", "the only accepted key (default: any key that doesn't start with `revoked`)"),
    ],
    load: async () => (await import("./commands/sandbox.ts")).sandbox,
  },
  {
    name: "database",
    summary: "keep the embedded database running for psql or a BI tool, until Ctrl-C",
    load: async () => (await import("./commands/database.ts")).database,
  },
];

/** Runs a parsed command. `rest` has keys of its document that are present even after a failure. */
type Act = (command: Command, run: (context: Context) => Promise<Outcome>, rest: object) => Promise<void>;

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
