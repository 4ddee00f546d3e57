import { personChildren } from "../../src/schemas/person.ts";
import { runSql } from "../../test/support/run-sql.ts";
import type { DltVariant } from "./dlt-pipeline.ts";

/** Tables that dlt makes of a list by itself, by the table of person-etl. */
const AUTOMATIC: Readonly<Record<string, readonly string[]>> = {
  person_email: ["person__personal_emails", "person__professional_emails"],
  person_phone: ["person__phones"],
  person_relative: ["person__relatives"],
  person_address: ["person__address_history"],
  person_work_experience: ["person__work_experience"],
  person_education_experience: ["person__education_experience"],
};

const TABLES = ["enrichment", "person", ...personChildren.map(({ name }) => name)];

/** Throws if a peer's tables don't hold as many rows as person-etl's; returns rows by table. */
export async function compareRows(
  databaseUrl: string,
  schema: string,
  { name, dataset, normalizing }: DltVariant,
): Promise<Readonly<Record<string, number>>> {
  const count = async (tables: readonly string[]) => {
    const sums = tables.map((table) => `(SELECT count(*) FROM ${table})`).join(" + ");
    const [row] = await runSql(databaseUrl, `SELECT ${sums} AS count`);
    return Number(row?.["count"]);
  };
  const counts: Record<string, number> = {};
  for (const table of TABLES) {
    const theirs = (normalizing === "automatic" && AUTOMATIC[table]) || [table];
    // The service answers records that person-etl rejects; dlt stores those answers.
    const own =
      table === "enrichment" ? [`${schema}.enrichment`, `${schema}.reject`] : [`${schema}.${table}`];
    const expected = await count(own);
    const found = await count(theirs.map((each) => `${dataset}.${each}`));
    if (found !== expected) {
      throw new Error(`${name}: ${table} has ${found} rows, but person-etl has ${expected}.`);
    }
    counts[table] = expected;
  }
  return counts;
}
