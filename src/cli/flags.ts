import { InvalidArgumentError } from "commander";
import { randomBytes } from "node:crypto";
import { UsageError } from "./failure.ts";
import { readShard, type Shard } from "../jobs/services.ts";
import type { RowKey } from "../load/inputs/input.ts";

/** Parses a whole number of a flag, bounds inclusive. */
export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < least || value > most) {
      throw new InvalidArgumentError(
        `Expected a whole number, ${least} ${most === Number.MAX_SAFE_INTEGER ? "or more" : `to ${most}`}.`,
      );
    }
    return value;
  };
}

/** Parses the shard of a flag. */
export function parseShard(text: string): Shard {
  const shard = readShard(text);
  if (shard === null) {
    throw new InvalidArgumentError("Expected I/N, with I from 0 to N - 1: 0/4, 1/4, 2/4 or 3/4.");
  }
  return shard;
}

/** Generates a run ID that sorts by time. */
export function newRunId(): string {
  const time = new Date().toISOString().slice(0, 19).replaceAll(/[-:]/g, "");
  return `${time}Z-${randomBytes(4).toString("hex")}`;
}

/** Parses the run ID of a scheduler (`scheduled__2026-11-20T01:15:00+00:00`). */
export function readRunId(text: string): string {
  if (/^[\w.:+@/-]{1,200}$/.test(text)) return text;
  throw new InvalidArgumentError("Expected 1 to 200 letters, digits and . _ : + @ / -");
}

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
