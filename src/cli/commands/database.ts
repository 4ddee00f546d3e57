import type { InputConfig } from "../../config/config.ts";
import { profileKeyName, profileName } from "../../schemas/views/profile-input.ts";
import { openConfig, openWarehouseOf } from "../app.ts";
import { type Context, result } from "../command.ts";
import { FixConfigurationError } from "../../errors.ts";

/** Keeps the embedded database running for psql and BI tools. */
export async function database(context: Context) {
  const config = await openConfig(context);
  const { url } = config.warehouse;
  if (url !== "embedded") {
    const summary = "This configuration doesn't use the embedded database.";
    const message = `is the address of your own Postgres (${url.origin})`;
    throw new FixConfigurationError("no_embedded_database", summary, [
      { path: "warehouse.url", message, hint: "connect to that server directly" },
    ]);
  }
  const { db, howToConnect } = await openWarehouseOf(context, config);
  const queries = exampleQueries(config.warehouse.schema, config.inputs).flatMap(({ title, sql }) => [
    `-- ${title}`,
    ...sql,
  ]);
  const text = [
    `The embedded database is running until Ctrl-C: ${db.description}`,
    ...howToConnect.map((line) => `  ${line}`),
    "",
    "Example queries",
    ...queries.map((line) => `  ${line}`),
  ];
  await context.announce({ warehouse: db.description, how_to_connect: howToConnect }, text.join("\n"));
  await context.untilStopped();
  return result(null, "");
}

/** Three example queries, by lines; the first is left out without an input that has a profile. */
export function exampleQueries(
  schema: string,
  inputs: Readonly<Record<string, Pick<InputConfig, "key">>>,
): readonly { readonly title: string; readonly sql: readonly string[] }[] {
  const at = (table: string) => `${quoted(schema)}.${table}`;
  const profiles = Object.entries(inputs).flatMap(([name, { key }]) => {
    const view = profileName(name);
    return view === null
      ? []
      : [{ view, key: key.map((column) => quoted(profileKeyName(column))).join(", ") }];
  });
  return [
    ...profiles.slice(0, 1).map(({ view, key }) => ({
      title: "Your rows with the people they match",
      sql: [
        `SELECT ${key}, full_name, email_address, address_city, work_title`,
        `FROM ${at(view)}`,
        `ORDER BY ${key} LIMIT 10;`,
      ],
    })),
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

const quoted = (name: string) => (/^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`);
