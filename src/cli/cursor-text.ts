/** Formats a checkpoint's cursor for people: its position; `--json` has all of it. */
export function cursorText(cursor: unknown): string {
  if (typeof cursor !== "object" || cursor === null) return String(cursor);
  return Object.entries(cursor)
    .flatMap(([name, value]) => {
      if (value === null || typeof value === "object") return [];
      return [`${name.replaceAll("_", " ")} ${value}`];
    })
    .join(", ");
}
