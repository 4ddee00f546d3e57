import { InvalidArgumentError } from "commander";
import { readShard, type Shard } from "../jobs/shard.ts";

/** Parses the shard of a flag. */
export function parseShard(text: string): Shard {
  const shard = readShard(text);
  if (shard === null) {
    throw new InvalidArgumentError("Expected I/N, with I from 0 to N - 1: 0/4, 1/4, 2/4 or 3/4.");
  }
  return shard;
}
