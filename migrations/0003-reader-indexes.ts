import { type SchemaNames, tableText } from "../src/load/db/names.ts";

/** Tables whose rows readers look up by input row, and by person. */
const ANSWERS = ["resolution", "enrichment"];

/** Creates the indexes with which readers find one input row, person or address. */
export function createReaderIndexes(names: SchemaNames): readonly string[] {
  const at = (name: string) => tableText(names, name);
  return [
    // The key with `job` last: `identity_link` looks for an input row in the answers of every job.
    ...ANSWERS.map(
      (name) =>
        `ALTER TABLE ${at(name)} DROP CONSTRAINT ${name}_pkey, ADD PRIMARY KEY (source_key, source, job)`,
    ),
    ...ANSWERS.map((name) => `CREATE INDEX IF NOT EXISTS ${name}_by_pid ON ${at(name)} (service_pid)`),
    // Whose address is it: 0.02 to 0.04 s of CPU per 1,000 new people, against about 1 s for all of their rows.
    `CREATE INDEX IF NOT EXISTS person_email_by_address ON ${at("person_email")} (email_address)`,
    `CREATE INDEX IF NOT EXISTS email_validation_by_address ON ${at("email_validation")} (lower(email_address))`,
  ];
}
