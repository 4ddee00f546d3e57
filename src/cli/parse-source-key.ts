import type { RowKey } from "../load/erasure/people.ts";
import { UsageError } from "./failure.ts";

/**
 * Reads `customers/4711`: the name of an input, and a key that may hold slashes. The key of an input with several key
 * columns is a JSON list in any spelling, and is returned in the spelling that tables use.
 */
export function parseSourceKey(
  text: string,
  inputs: Readonly<Record<string, { readonly key: readonly string[] }>>,
): RowKey {
  const slash = text.indexOf("/");
  const [source, sourceKey] = [text.slice(0, slash), text.slice(slash + 1)];
  if (slash <= 0 || sourceKey === "") {
    throw new UsageError("--source-key takes the name of an input, a slash, and a key: customers/4711.");
  }
  const columns = inputs[source]?.key ?? [];
  return { source, sourceKey: columns.length > 1 ? canonicalKey(source, sourceKey, columns) : sourceKey };
}

function canonicalKey(source: string, text: string, columns: readonly string[]): string {
  const values = readList(text);
  if (values?.length !== columns.length) {
    throw new UsageError(
      `The key of ${source} has the columns ${columns.join(", ")}: write --source-key '${source}/[${columns.map(() => '"…"').join(",")}]'.`,
    );
  }
  return `[${values.map((value) => JSON.stringify(value)).join(", ")}]`;
}

/** Reads a JSON list of texts or whole numbers as texts; null for anything else. */
function readList(text: string): readonly string[] | null {
  try {
    const list: unknown = JSON.parse(text);
    if (!Array.isArray(list)) return null;
    const values = list.flatMap((value) =>
      typeof value === "string" || Number.isSafeInteger(value) ? String(value) : [],
    );
    return values.length === list.length ? values : null;
  } catch {
    return null;
  }
}
