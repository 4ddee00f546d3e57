import type { InputField } from "../config/config.ts";
import type { ConfigAnswers } from "../config/template.ts";
import { type InitFlags, inputNameOf, listOf } from "./init-answers.ts";

/** Fields to ask for, most useful first; others can be added to the file. */
const ASKED_FIELDS: readonly InputField[] = [
  "first_name",
  "last_name",
  "full_name",
  "emails",
  "phones",
  "linkedin_url",
  "address_line_1",
  "city",
  "state",
  "zipcode",
];

/** Asks for everything missing in the flags. */
export async function askForAnswers(
  flags: InitFlags,
  ask: (question: string) => Promise<string>,
): Promise<ConfigAnswers> {
  const askFor = async (question: string, preset: string) =>
    (await ask(`${question}${preset === "" ? "" : ` [${preset}]`}: `)) || preset;

  const baseUrl =
    flags.baseUrl ??
    (await askFor("Address of the service, or `sandbox` to try it without a key", "sandbox"));
  const apiKeyEnv =
    baseUrl === "sandbox"
      ? null
      : (flags.apiKeyEnv ??
        (await askFor("Environment variable with the API key", "PERSON_SERVICE_API_KEY")));
  const warehouse =
    flags.warehouseUrlEnv ??
    (await askFor(
      "Environment variable with the address of your Postgres, or `embedded` for a built-in database",
      "embedded",
    ));
  const table = flags.table ?? (await askFor("Table of the rows to enrich", "crm.customers"));
  const key = flags.key ?? (await askFor("Its key column(s), separated by commas", "id"));
  const cursor = flags.cursor ?? (await askFor("Column that changes when a row changes (optional)", ""));
  return {
    baseUrl,
    apiKey: apiKeyEnv === null ? null : `\${${apiKeyEnv}}`,
    warehouseUrl: warehouse === "embedded" ? warehouse : `\${${warehouse}}`,
    input: flags.input ?? inputNameOf(table),
    table,
    key: listOf(key),
    cursor: cursor === "" ? null : cursor,
    fields: await askForFields(askFor),
  };
}

type AskFor = (question: string, preset: string) => Promise<string>;

async function askForFields(askFor: AskFor): Promise<ConfigAnswers["fields"]> {
  const fields: Partial<Record<InputField, string[]>> = {};
  for (const field of ASKED_FIELDS) {
    const isList = field === "emails" || field === "phones";
    const columns = listOf(await askFor(`Column${isList ? "(s)" : ""} for ${field} (optional)`, ""));
    if (columns.length > 0) fields[field] = columns;
  }
  return fields;
}
