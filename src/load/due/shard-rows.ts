import { contentHash, hasAnyOf, type Value, valuesOf } from "./content.ts";
import type { Part } from "../inputs/input-source.ts";
import type { InputShard } from "./lookup-spec.ts";

/** Leading characters of a key that determine its shard. Rejects of longer keys keep only these. */
export const KEPT_KEY_CHARACTERS = 500;

/** SQL condition: the first 60 bits of a hash belong to the shard. */
function owns({ index, count }: InputShard, hash: string): string {
  return `mod(('x' || left(encode(${hash}, 'hex'), 15))::bit(60)::bigint, ${count}) = ${index}`;
}

function keyHash(key: string): string {
  return `sha256(convert_to(coalesce(left(${key}, ${KEPT_KEY_CHARACTERS}), ''), 'UTF8'))`;
}

/** SQL condition: a key or address belongs to the shard. All null keys belong to one shard. */
export function ownsKey(shard: InputShard | null, key: string): string {
  return shard === null ? "true" : owns(shard, keyHash(key));
}

/**
 * SQL condition: an input row belongs to the shard, by its content, so that equal rows are in one shard. Rows with
 * `hasBadKey`, which are never sent, are assigned by key.
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
