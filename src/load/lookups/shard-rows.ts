import type { InputShard } from "./lookup.ts";

/** Leading characters of a key that determine its shard. Rejects of longer keys keep only these. */
export const KEPT_KEY_CHARACTERS = 500;

/** SQL condition: a key belongs to the shard. Rows without a key belong to one shard. */
export function ownsKey(shard: InputShard | null, key: string): string {
  if (shard === null) return "true";
  const text = `coalesce(left(${key}, ${KEPT_KEY_CHARACTERS}), '') COLLATE "C"`;
  return `mod(hashtextextended(${text}, 0) & 9223372036854775807, ${shard.count}) = ${shard.index}`;
}
