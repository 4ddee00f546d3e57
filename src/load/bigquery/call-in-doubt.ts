import type { LookupSpec } from "../warehouse.ts";
import { type DatasetNames, quoteLiteral, tableText } from "./names.ts";

/** Of each record's hash so many bytes are kept: enough to tell records apart, and no more than that. */
export const HASH_BYTES = 8;

/**
 * Records of the job's calls of which it isn't known whether they were charged, as a set of the first bytes of their
 * hashes, hex.
 */
export function hashesInDoubt(names: DatasetNames, spec: Pick<LookupSpec, "job">): string {
  const step = 2 * HASH_BYTES;
  return `SELECT SUBSTR(d.hashes, i, ${step}) AS hash
    FROM (SELECT TO_HEX(record_hashes) AS hashes FROM ${tableText(names, "data", "call_in_doubt")}
      WHERE job = ${quoteLiteral(spec.job)}) AS d, UNNEST(GENERATE_ARRAY(1, LENGTH(d.hashes), ${step})) AS i`;
}
