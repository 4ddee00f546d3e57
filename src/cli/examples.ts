interface Help {
  /** Command lines without the program's name, each with what it does. */
  readonly examples: Readonly<Record<string, string>>;
  /** Page of `docs/`. */
  readonly page: string;
}

/** End of each command's help, by its name (`run`, `rejects list`). */
export const helpByCommand: Readonly<Record<string, Help>> = {
  init: {
    page: "configuration.md",
    examples: {
      init: "Asks for the service, the table and its columns",
      "init --add-input leads --table crm.leads": "Adds a table to the existing file",
    },
  },
  check: { page: "first-run.md", examples: { check: "Verifies everything that a run needs" } },
  migrate: {
    page: "operating.md",
    examples: {
      "migrate --print": "Prints the DDL for an administrator",
      "migrate --print --grants": "Prints roles and privileges",
    },
  },
  drop: { page: "from-sandbox.md", examples: { "drop --trial": "Lists the trial, asks, and removes it" } },
  plan: {
    page: "what-is-sent.md",
    examples: {
      plan: "Shows what a run of all jobs would send, and what it would cost",
      "plan enrich_customers --show 1": "Prints the first request of one job",
    },
  },
  run: {
    page: "operating.md",
    examples: {
      run: "Runs all jobs",
      "run --max-records 1000": "A trial: at most 1,000 records per job",
      "run resolve_customers --dry-run": "Shows what this run would send",
      "run --shard 0/4 --run-id 2026-11-20": "The first of four processes that share the work",
    },
  },
  explain: {
    page: "what-is-sent.md",
    examples: { "explain customers/4711": "Shows the row of the input `customers` with the key 4711" },
  },
  schedule: { page: "operating.md", examples: { schedule: "Runs jobs by their schedules until Ctrl-C" } },
  publish: {
    page: "publishing.md",
    examples: {
      publish: "Publishes what changed to all destinations",
      "publish warehouse_copy --verify": "Also compares every table of one destination",
    },
  },
  status: { page: "operating.md", examples: { "status --json": "Prints the status for a program" } },
  "runs list": { page: "operating.md", examples: { "runs list --limit 5": "Lists the last five runs" } },
  "runs show": {
    page: "operating.md",
    examples: { "runs show 20261120T011500Z": "Shows the summary of the run whose ID begins like this" },
  },
  costs: { page: "what-is-sent.md", examples: { "costs --month 2026-11": "Shows what November was billed" } },
  ui: { page: "operating.md", examples: { "ui --port 0": "Serves the page on any free port" } },
  "checkpoint show": {
    page: "operating.md",
    examples: { "checkpoint show deaths": "Shows the position from which the job `deaths` resumes" },
  },
  "checkpoint set": {
    page: "operating.md",
    examples: { 'checkpoint set deaths \'{"since":"2026-11-01"}\'': "Changes one key of the position" },
  },
  "checkpoint reset": {
    page: "operating.md",
    examples: { "checkpoint reset deaths": "Lets the job read everything again" },
  },
  "rejects list": {
    page: "rejects.md",
    examples: { "rejects list --job enrich_customers --limit 100": "Lists more rejects of one job" },
  },
  "rejects retry": {
    page: "rejects.md",
    examples: { "rejects retry --code missing_result": "Sends all rejects of one code again" },
  },
  "rejects drop": {
    page: "rejects.md",
    examples: { "rejects drop --source-key customers/4711": "Resolves the rejects of one row" },
  },
  erase: {
    page: "security.md",
    examples: {
      "erase --email ann@example.com --dry-run": "Shows what would be removed",
      "erase --source-key customers/4711 --yes": "Removes a person by an input row",
    },
  },
  search: {
    page: "searches.md",
    examples: { 'search "nurses in Ohio" --size 20': "Prints 20 of the people" },
  },
  "audience list": { page: "searches.md", examples: { "audience list": "Lists every audience" } },
  "audience show": { page: "searches.md", examples: { "audience show nurses": "Shows one audience" } },
  "audience unlock": {
    page: "searches.md",
    examples: { "audience unlock nurses --max-billable 500": "Unlocks it if it costs 500 records or less" },
  },
  sandbox: {
    page: "sandbox.md",
    examples: { "sandbox --port 8787 --people 10000": "Then set service.base_url: http://127.0.0.1:8787" },
  },
  database: { page: "embedded-database.md", examples: { database: "Prints how to connect" } },
  "config show": {
    page: "configuration.md",
    examples: { "config show --json": "Prints the settings for a program" },
  },
  completion: {
    page: "install.md",
    examples: {
      "completion bash > ~/.local/share/bash-completion/completions/person-etl": "Completes in bash",
      "completion fish > ~/.config/fish/completions/person-etl.fish": "Completes in fish",
    },
  },
};
