import type { RowKey } from "../load/erasure/subjects.ts";
import { UsageError } from "./failure.ts";

/**
 * Parses `customers/4711`: input name and key, which may contain slashes. The key of an input with several key columns is a
 * JSON list, and is returned in canonical form, as stored in tables.
 * @param flag flag or command in messages
 */
export function parseSourceKey(
  text: string,
  inputs: Readonly<Record<string, { readonly key: readonly string[] }>>,
  flag = "--source-key",
): RowKey {
  const slash = text.indexOf("/");
  const [source, sourceKey] = [text.slice(0, slash), text.slice(slash + 1)];
  if (slash <= 0 || sourceKey === "") {
    throw new UsageError(`${flag} takes an input name, a slash and a key, such as customers/4711.`);
  }
  const columns = inputs[source]?.key ?? [];
  return {
    source,
    sourceKey: columns.length > 1 ? canonicalKey({ source, sourceKey }, columns, flag) : sourceKey,
  };
}

/** Values of the key columns of a parsed row. */
export function keyValues({ sourceKey }: RowKey, columns: readonly string[]): readonly string[] {
  return columns.length > 1 ? (readList(sourceKey) ?? []) : [sourceKey];
}

function canonicalKey({ source, sourceKey }: RowKey, columns: readonly string[], flag: string): string {
  const values = readList(sourceKey);
  if (values?.length !== columns.length) {
    throw new UsageError(
      `The key of ${source} has the columns ${columns.join(", ")}. Use ${flag} '${source}/[${columns.map(() => '"…"').join(",")}]'.`,
    );
  }
  return `[${values.map((value) => JSON.stringify(value)).join(", ")}]`;
}

/** Parses a JSON list of texts or integers as texts; null if invalid. */
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
