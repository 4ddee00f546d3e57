import { createHash } from "node:crypto";
import type { LookupJobConfig } from "./lookup-type.ts";

/** Changes only with the form below; a new version makes every answer look bought with other parameters, so keep it. */
const FORM = "person-etl/parameters/1";

/**
 * Hash of mapping and request parameters, which answers are bought with.
 * @param fields the mapping's used fields and their columns, in order where a field has several.
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
