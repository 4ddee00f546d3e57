import { createHash } from "node:crypto";
import type { LookupJobConfig } from "./lookup-type.ts";

/** Version of the hashed form. Don't change it: every answer would count as bought with other parameters. */
const FORM = "person-etl/parameters/1";

/**
 * Hash of the mapping and request parameters that answers are bought with.
 * @param fields used fields of the mapping with their columns, in order
 */
export function hashParameters(
  { type }: Pick<LookupJobConfig, "type">,
  fields: Readonly<Record<string, readonly string[]>>,
  boughtWith: readonly unknown[],
): string {
  const mapping = Object.entries(fields).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return createHash("sha256")
    .update(JSON.stringify([FORM, type, mapping, ...boughtWith]))
    .digest("hex");
}
