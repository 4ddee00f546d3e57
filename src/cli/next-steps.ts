import { basename, dirname } from "node:path";
import type { Config } from "../config/config.ts";
import { programName } from "./version.ts";

/** Example query. */
interface ExampleQuery {
  readonly title: string;
  /** Lines of the query. */
  readonly sql: readonly string[];
}

/** Three example queries. */
export function exampleQueries(schema: string): readonly ExampleQuery[] {
  const at = (table: string) => `${identifier(schema)}.${table}`;
  return [
    {
      title: "Your rows with the people they match",
      sql: [
        "SELECT source_key, full_name, linkedin_title, estimated_income_range",
        `FROM ${at("identity_link")} JOIN ${at("person")} USING (service_pid)`,
        "LIMIT 10;",
      ],
    },
    {
      title: "Match rate of each job",
      sql: [
        "SELECT job, source, count(*) AS answered, count(*) FILTER (WHERE is_match) AS matched",
        `FROM ${at("enrichment")} GROUP BY job, source;`,
      ],
    },
    {
      title: "Where people work now",
      sql: [
        `SELECT work_company_name, count(*) AS people FROM ${at("person_work_experience")}`,
        "WHERE work_status = 'current' GROUP BY work_company_name ORDER BY people DESC LIMIT 10;",
      ],
    },
  ];
}

/** Quotes an SQL identifier if necessary. */
function identifier(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

/** Command with the configuration in use, to copy from the terminal. */
export function commandWith({ file }: Config, command: string): string {
  const isHere = process.cwd() === dirname(file);
  const isDefault = isHere && basename(file) === "config.yaml";
  return [programName, ...(isDefault ? [] : ["--config", isHere ? basename(file) : file]), command].join(" ");
}

/** Next steps of a trial: look at it, query the data, then replace sandbox and embedded database. Empty without either. */
export function nextSteps(config: Config): readonly string[] {
  const isSandbox = config.service.baseUrl === "sandbox";
  const isEmbedded = config.warehouse.url === "embedded";
  const settings = [...(isSandbox ? ["service.base_url"] : []), ...(isEmbedded ? ["warehouse.url"] : [])];
  const isExample = basename(config.file) === "config.example.yaml";
  const [query] = exampleQueries(config.warehouse.schema);
  return [
    ...(isEmbedded || isSandbox
      ? ["To see runs, costs and coverage in a browser (until Ctrl-C):", `  ${commandWith(config, "ui")}`]
      : []),
    ...(isEmbedded
      ? [
          "To query the data with psql or a BI tool, start its database (until Ctrl-C):",
          `  ${commandWith(config, "database")}`,
        ]
      : []),
    ...(isEmbedded || isSandbox
      ? [
          ...(query ? [`${query.title}:`, ...query.sql.map((line) => `  ${line}`)] : []),
          ...(isExample
            ? [
                "To use your own service, database and tables, write a configuration:",
                `  ${programName} init`,
              ]
            : [`To leave the trial, set \`${settings.join("` and `")}\` in ${basename(config.file)}.`]),
        ]
      : []),
  ];
}

/** Addresses of a database that is up, with example queries. */
export function renderConnection(
  config: Config,
  { description, howToConnect }: { readonly description: string; readonly howToConnect: readonly string[] },
): string {
  const queries = exampleQueries(config.warehouse.schema).flatMap(({ title, sql }) => [
    `-- ${title}`,
    ...sql,
  ]);
  return [
    `The embedded database is running until Ctrl-C: ${description}`,
    ...howToConnect.map((line) => `  ${line}`),
    "",
    "Example queries",
    ...queries.map((line) => `  ${line}`),
  ].join("\n");
}
