import type { InputShard } from "../warehouse.ts";
import { contentHash, hasAnyOf, type Value, valuesOf } from "./content.ts";
import type { Part } from "../input-source.ts";

/** So many characters of a key decide, and as many are kept of one that is too long: its reject is found again by them. */
export const KEPT_KEY_CHARACTERS = 500;

/** Whether a hash is the shard's, by its first 60 bits as a whole number: the same rows as in the Postgres warehouse. */
function owns({ index, count }: InputShard, hash: string): string {
  return `MOD(CAST(CONCAT('0x', SUBSTR(TO_HEX(${hash}), 1, 15)) AS INT64), ${count}) = ${index}`;
}

function keyHash(key: string): string {
  return `SHA256(IFNULL(SUBSTR(${key}, 1, ${KEPT_KEY_CHARACTERS}), ''))`;
}

/** Whether a key, or an address, is the shard's, as SQL; null keys are all one shard's. */
export function ownsKey(shard: InputShard | null, key: string): string {
  return shard === null ? "TRUE" : owns(shard, keyHash(key));
}

/**
 * Whether an input row is the shard's, as SQL: by its content, so that equal rows meet, or by its key where `hasBadKey`
 * says that it will never be sent.
 */
export function ownsRow(shard: InputShard | null, parts: readonly Part[], hasBadKey: string): string {
  if (shard === null) return "TRUE";
  const tiers = shard.by
    .map((fields): readonly Value[] => valuesOf(parts).filter(({ field }) => fields.includes(field)))
    .filter((values) => values.length > 0)
    .map((values) => `WHEN ${hasAnyOf(values)} THEN ${contentHash(values)}`);
  const key = keyHash("source_key");
  return owns(shard, `CASE WHEN ${hasBadKey} THEN ${key} ${tiers.join(" ")} ELSE ${key} END`);
}
