/** SHA-256 in hexadecimal. */
const HASH = /^[0-9a-f]{64}$/;

/** Formats a checkpoint's cursor for people: its position, without hashes; `--json` has all of it. */
export function cursorText(cursor: unknown): string {
  if (typeof cursor !== "object" || cursor === null) return String(cursor);
  if ("value" in cursor && typeof cursor.value === "string") return cursor.value;
  return Object.entries(cursor)
    .flatMap(([name, value]) => {
      if (value === null || typeof value === "object" || HASH.test(String(value))) return [];
      return [`${name.replaceAll("_", " ")} ${value}`];
    })
    .join(", ");
}
