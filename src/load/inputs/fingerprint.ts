import { createHash } from "node:crypto";
import { HASH_VERSION } from "../lookups/content.ts";
import { fieldsTaken } from "./input-fields.ts";
import type { InputSource } from "./input-source.ts";
import { NORMALIZATION } from "./normalize.ts";

/** Version of the fingerprint. A new one makes every row compare its content hash once, and none due. */
const VERSION = "person-etl/fingerprint/1";

/** Columns that a fingerprint covers: all mapped ones, so that the jobs of an input share it. */
export function fingerprintColumns({ fields }: Pick<InputSource, "fields">): readonly string[] {
  return [...new Set(Object.values(fields).flat())].toSorted();
}

/**
 * SHA-256 of everything besides its values that determines a row's content hashes. Part of each fingerprint, so that
 * fingerprints made under another mapping differ.
 * @param lists the mapped columns with lists
 */
export function fingerprintScope(
  { fields, normalize }: Pick<InputSource, "fields" | "normalize">,
  lists: readonly string[],
): Buffer {
  const mapping = Object.entries(fields).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const scope = [VERSION, HASH_VERSION, fieldsTaken, normalize ? NORMALIZATION : null, mapping, lists];
  return createHash("sha256").update(JSON.stringify(scope)).digest();
}
