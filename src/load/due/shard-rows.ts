import type { InputShard } from "../lookup.ts";
import { contentHash, hasAnyOf, type Value, valuesOf } from "./content.ts";
import type { Part } from "../inputs/input-source.ts";

/** So many characters of a key decide, and as many are kept of one that is too long: its reject is found again by them. */
export const KEPT_KEY_CHARACTERS = 500;

/** Whether a hash is the shard's, by its first 60 bits as a whole number. */
function owns({ index, count }: InputShard, hash: string): string {
  return `mod(('x' || left(encode(${hash}, 'hex'), 15))::bit(60)::bigint, ${count}) = ${index}`;
}

function keyHash(key: string): string {
  return `sha256(convert_to(coalesce(left(${key}, ${KEPT_KEY_CHARACTERS}), ''), 'UTF8'))`;
}

/** Whether a key, or an address, is the shard's, as SQL; null keys are all one shard's. */
export function ownsKey(shard: InputShard | null, key: string): string {
  return shard === null ? "true" : owns(shard, keyHash(key));
}

/**
 * Whether an input row is the shard's, as SQL: by its content, so that equal rows meet, or by its key where `hasBadKey`
 * says that it will never be sent.
 */
export function ownsRow(shard: InputShard | null, parts: readonly Part[], hasBadKey: string): string {
  if (shard === null) return "true";
  const tiers = shard.by
    .map((fields): readonly Value[] => valuesOf(parts).filter(({ field }) => fields.includes(field)))
    .filter((values) => values.length > 0)
    .map((values) => `WHEN ${hasAnyOf(values)} THEN ${contentHash(values)}`);
  const key = keyHash("source_key");
  return owns(shard, `CASE WHEN ${hasBadKey} THEN ${key} ${tiers.join(" ")} ELSE ${key} END`);
}
