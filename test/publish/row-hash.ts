import { createHash } from "node:crypto";
import type { ColumnType } from "../../src/schemas/field.ts";
import type { FileFormat, PublishedTable } from "../../src/publish/destination.ts";
import type { FileRow } from "./staged-files.ts";

const DAY_MS = 86_400_000;

/** Microseconds of a time in a file. */
function micros(time: string): string {
  const [, seconds = "", fraction = ""] = /^(.{19})(?:\.(\d+))?/u.exec(time) ?? [];
  return String(BigInt(Date.parse(`${seconds}Z`)) * 1000n + BigInt(fraction.padEnd(6, "0") || "0"));
}

const texts: Partial<Record<ColumnType, (value: string) => string>> = {
  date: (value) => String(Date.parse(value) / DAY_MS),
  timestamp: micros,
  timestamptz: micros,
  bytes: (value) => Buffer.from(value, "base64").toString("hex"),
};

/** Sum of the hashes of rows as destinations measure them. */
export function hashOf({ columns }: PublishedTable, rows: readonly FileRow[], format: FileFormat): string {
  const hashes = rows.map((row) => {
    const cells = columns.map(({ name, type }) => {
      const value = row[name] ?? null;
      if (type === "text[]") return Array.isArray(value) ? value.join("\u0001") : "";
      if (value === null) return "\u0002";
      const text = typeof value === "string" ? value : JSON.stringify(value);
      if (type === "json") return format === "json" ? "" : text;
      return texts[type]?.(text) ?? text;
    });
    return BigInt(`0x${createHash("md5").update(cells.join("\u0001")).digest("hex").slice(0, 15)}`);
  });
  return String(hashes.reduce((sum, hash) => sum + hash, 0n));
}
