import { quoteIdentifier, quoteQualified, type SchemaNames } from "../src/load/db/names.ts";

/**
 * Renames the tables by which publications follow and claim changes. Earlier versions don't know that a list of a person
 * is changed by itself: beside this version, they would claim such changes, publish none of them, and delete them.
 */
export function renamePublicationTables(names: SchemaNames): readonly string[] {
  const rename = (from: string, to: string) =>
    `ALTER TABLE IF EXISTS ${quoteQualified([names.state, from])} RENAME TO ${quoteIdentifier(to)}`;
  return [rename("destination_table", "followed_table"), rename("publication_batch", "claimed_key")];
}
