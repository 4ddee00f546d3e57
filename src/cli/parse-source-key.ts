import type { RowKey } from "../load/lookup.ts";
import { UsageError } from "./failure.ts";

/** Reads `customers/4711`: the name of an input, and a key that may hold slashes itself. */
export function parseSourceKey(text: string): RowKey {
  const slash = text.indexOf("/");
  const [source, sourceKey] = [text.slice(0, slash), text.slice(slash + 1)];
  if (slash > 0 && sourceKey !== "") return { source, sourceKey };
  throw new UsageError("--source-key is the name of an input, a slash, and a key: customers/4711.");
}
