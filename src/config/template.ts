import { isDeepStrictEqual } from "node:util";
import { isMap, isScalar, type Pair, parseDocument, type YAMLMap } from "yaml";
import type { InputField } from "./config.ts";
import { count } from "../figures.ts";
import { mappingAt } from "./schema/settings.ts";
import { isFileName } from "./schema/values.ts";
import { readYaml } from "./yaml.ts";

interface InputAnswers {
  readonly input: string;
  /** Connection of the table; null for the warehouse. */
  readonly connection: string | null;
  readonly table: string;
  /** Key columns, at least one. */
  readonly key: readonly string[];
  readonly fields: Readonly<Partial<Record<InputField, readonly string[]>>>;
  /** True to trim values and leave out placeholders. */
  readonly normalize: boolean;
  /** Number of its rows, perhaps an estimate; null if unknown. */
  readonly rows: number | null;
}

export interface ConfigAnswers extends InputAnswers {
  /** `sandbox`, or the address of the service. */
  readonly baseUrl: string;
  /** `${NAME}` or `file:PATH`; null for the sandbox. */
  readonly apiKey: string | null;
  readonly warehouseUrl: string;
  /** True if the warehouse may do without verified TLS. */
  readonly allowInsecure: boolean;
}

/**
 * Renders a commented config.yaml, with every job that the mapped fields allow.
 * @param schema path or URL of the JSON Schema for editors
 */
export function renderConfig(answers: ConfigAnswers, schema: string): string {
  return `# yaml-language-server: $schema=${schema}
# person-etl, created by \`person-etl init\`. Verify it with \`person-etl check\`; preview a run
# with \`person-etl plan\`; begin with \`person-etl run --max-records 1000\`. All settings: docs/configuration.md.
#
# Lines that begin with # and no space are defaults or examples: remove the # to use them.
# \${NAME} is replaced by an environment variable.

service:
  base_url: ${scalar(answers.baseUrl)}
  ${answers.apiKey === null ? "#api_key: ${PERSON_SERVICE_API_KEY}" : `api_key: ${scalar(answers.apiKey)}`}   # \${NAME} or file:PATH, never the key itself
  #concurrency: 8               # maximum number of calls in flight, all jobs together
  #requests_per_second: 50      # your own limit; person-etl slows down automatically on 429

warehouse:
  url: ${scalar(answers.warehouseUrl)}   # embedded, or \${NAME} or file:PATH of a postgresql:// address
  ${answers.allowInsecure ? "" : "#"}allow_insecure: true        # allow another machine without verified TLS
  #schema: person_data          # people
  #ops_schema: person_data_ops  # usage, runs, ledger; no personal data
  #state_schema: person_data_state   # internal tables

#data_dir: .person-etl          # embedded database; relative to this file
#confirm_above: { records: 10000, ratio: 0.2 }   # later runs with more due rows than both need --yes

${renderLimits(answers)}
inputs:
${renderInput(answers)}
jobs:
${renderJobs(answers)}`;
}

function renderInput(answers: InputAnswers): string {
  const { input, connection, table, key, fields, normalize } = answers;
  const lines = Object.entries(fields).map(([field, names]) => `      ${field}: ${columnsText(names)}`);
  return `  ${input}:
    table: ${scalar(table)}
${connection === null ? "" : `    connection: ${scalar(connection)}\n`}    #where: country = 'US'      # SQL condition: only these rows
    key: ${columnsText(key)}   # rows that repeat a key are rejected
    ${normalize ? "" : "#"}normalize: true             # trims values, lowercases e-mail addresses, drops placeholders
    fields:                     # field of the service: column
${lines.join("\n")}
`;
}

/** Renders budgets of the size of the input, prices and alerts, all commented out. */
function renderLimits(answers: InputAnswers): string {
  const { rows, fields, table } = answers;
  const types = jobsFor(answers).map(({ settings }) => settings.type);
  const size = rows === null || rows === 0 ? null : rows;
  const about =
    size === null ? "" : `; ${comment(table)} has about ${count(size)} rows, and a first full run sends all`;
  const budgets = types.map((type) => {
    const perRow = type === "validate_emails" ? (fields.emails?.length ?? 1) : 1;
    return `  #${type}: { per_month: ${roundedUp((size ?? 10_000) * perRow * MARGIN)} }`;
  });
  const prices = types.map((type) => `  #${type}: ${EXAMPLE_PRICES[type]}`);
  return `#budgets:                       # most records sent per UTC month, or per_day${about}
${budgets.join("\n")}
#prices:                        # per billed record, as in your contract: plan, status and costs then show amounts
  #currency: USD
${prices.join("\n")}
#alerts:                        # a message when a job fails, stops at a limit or is late
  #webhook: \${ALERT_WEBHOOK}   # an https:// address, such as an incoming webhook of Slack
  #stale_after: 36h
`;
}

/** Share of an input that a budget allows: all its rows, and a fifth for changes and refreshes. */
const MARGIN = 1.2;

/** Prices in the example lines. */
const EXAMPLE_PRICES = { resolve: "0.01", validate_emails: "0.002", enrich: "0.10" } as const;

/** The number, rounded up to two digits: 5,004 → 5,100. */
function roundedUp(value: number): number {
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(value)) - 1);
  return Math.ceil(value / unit) * unit;
}

/** A name for a comment, which ends with the line. */
function comment(name: string): string {
  return name.replaceAll(/[\p{Cc}\u2028\u2029]/gu, " ");
}

/** Renders the entries of `jobs` that the mapped fields allow. */
export function renderJobs(answers: InputAnswers): string {
  return jobsFor(answers)
    .map(({ name, purpose, settings }, i) => {
      const schedule = '    #schedule: "15 1 * * *"   # every day at 01:15 UTC; the jobs below run with it';
      const lines = Object.entries(settings).flatMap(([key, value]) =>
        value === false ? [] : [`    ${key}: ${value}`],
      );
      return `  ${name}:   # ${purpose}\n${[...lines, ...(i === 0 ? [schedule] : [])].join("\n")}\n`;
    })
    .join("\n");
}

interface JobEntry {
  readonly name: string;
  readonly purpose: string;
  /** Without those that are false. */
  readonly settings: { readonly type: keyof typeof EXAMPLE_PRICES } & Readonly<
    Record<string, string | false>
  >;
}

/** Jobs that the mapped fields allow; each after the first depends on it, directly or not. */
function jobsFor({ input, fields }: InputAnswers): readonly JobEntry[] {
  const has = (field: InputField) => (fields[field] ?? []).length > 0;
  const hasName = has("full_name") || (has("first_name") && has("last_name"));
  // A mapped service_pid excludes pid_from.
  const resolves = hasName && (has("emails") || has("phones")) && !has("service_pid");
  const validates = has("emails");
  const jobs: readonly (JobEntry | false)[] = [
    resolves && {
      name: `resolve_${input}`,
      purpose: "finds the PID of each row",
      settings: { type: "resolve", input },
    },
    validates && {
      name: `validate_${input}`,
      purpose: "validates the e-mail addresses",
      settings: { type: "validate_emails", input, refresh_after: "30d" },
    },
    {
      name: `enrich_${input}`,
      purpose: "fetches the people",
      settings: {
        type: "enrich",
        input,
        pid_from: resolves && `resolve_${input}`,
        valid_emails_from: validates && `validate_${input}`,
        refresh_after: "90d",
        refresh_unmatched_after: "30d",
        max_records_per_run: "100000",
      },
    },
  ];
  return jobs.filter((job) => job !== false);
}

/** Renders one column as text, several as a list. */
export function columnsText(names: readonly string[]): string {
  const [only, ...others] = names.map(column);
  return only !== undefined && others.length === 0 ? only : `[${names.map(column).join(", ")}]`;
}

/** Escapes `${` in a column's name as `$${`. */
function column(name: string): string {
  return scalar(name.replaceAll("${", "$$$${"));
}

/** Renders a YAML scalar, plain if safe inside and outside of lists, else quoted. */
function scalar(value: string): string {
  const isPlain =
    /^(\$\{[A-Z_][A-Z0-9_]*\}|[A-Za-z_][A-Za-z0-9_.]*|https?:\/\/[A-Za-z0-9.:/_-]+[A-Za-z0-9/]|file:[A-Za-z0-9._/-]+)$/;
  const isWord = /^(true|false|null|yes|no|on|off)$/i.test(value);
  if (isPlain.test(value) && !isWord) return value;
  return /^[ !"$-&(-~]+$/.test(value) && value.includes('"') ? `'${value}'` : JSON.stringify(value);
}

/** Adds an input and its jobs to the text of a file, which otherwise stays as it is; null if that isn't possible. */
export function addInputToText(text: string, answers: InputAnswers): string | null {
  const { connection, table } = answers;
  const hasConnection =
    connection === null ||
    Object.hasOwn(mappingAt(readYaml(text, "config.yaml").value, "connections"), connection);
  const withConnection =
    hasConnection || !isFileName(table)
      ? text
      : addEntries(
          text,
          "connections",
          `  ${connection}:   # CSV, Parquet and JSON files\n    type: duckdb\n`,
        );
  const withInput = withConnection && addEntries(withConnection, "inputs", renderInput(answers));
  const added = withInput && addEntries(withInput, "jobs", `\n${renderJobs(answers)}`);
  return added && keepsAll(text, added, answers.input) ? added : null;
}

/** Adds entries, indented by two spaces, at the end of a section. */
function addEntries(text: string, section: string, block: string): string | null {
  const { contents, errors } = parseDocument(text, { keepSourceTokens: true });
  if (errors.length > 0 || !isMap(contents) || contents.flow === true) return null;
  const pairs = contents.items;
  const at = pairs.findIndex(({ key }) => isScalar(key) && key.value === section);
  const lineEnd = text.includes("\r\n") ? "\r\n" : "\n";
  const lines = block.trimEnd().split("\n");
  if (at < 0) return `${text.trimEnd()}${lineEnd}${[`${lineEnd}${section}:`, ...lines, ""].join(lineEnd)}`;
  const map = pairs[at]?.value;
  if (!isMap(map)) return null;
  if (map.flow === true) return null;
  const indent = " ".repeat(columnOf(map, text));
  const end = endOfSection(text, pairs[at + 1]);
  const own = lines.map((line) => line.replace(/^(?: {2})+/u, (spaces) => indent.repeat(spaces.length / 2)));
  return [text.slice(0, end).trimEnd(), ...own, ""].join(lineEnd) + text.slice(end);
}

/** Column of a block mapping's keys. */
function columnOf(map: YAMLMap, text: string): number {
  const [first] = map.items;
  const start = isScalar(first?.key) ? (first.key.range?.[0] ?? 0) : 0;
  return start - (text.lastIndexOf("\n", start - 1) + 1);
}

/** Offset after a section: before blank lines and unindented comments, which belong to the next section. */
function endOfSection(text: string, next: Pair | undefined): number {
  const start = isScalar(next?.key) ? (next.key.range?.[0] ?? text.length) : text.length;
  const lines = text.slice(0, start).split(/(?<=\n)/u);
  while (lines.length > 0 && /^(?:#|\s*$)/u.test(lines.at(-1) ?? "")) lines.pop();
  return lines.join("").length;
}

/** True if everything in the file still has its value, and the input is new. */
function keepsAll(before: string, after: string, input: string): boolean {
  const [old, now] = [before, after].map((text) => readYaml(text, "config.yaml").value);
  const merged = (section: string) => ({ ...mappingAt(now, section), ...mappingAt(old, section) });
  const added = Object.hasOwn(mappingAt(now), "connections") ? { connections: merged("connections") } : {};
  const isNew = !Object.hasOwn(mappingAt(old, "inputs"), input);
  return (
    isNew &&
    isDeepStrictEqual(now, { ...mappingAt(old), ...added, inputs: merged("inputs"), jobs: merged("jobs") })
  );
}
