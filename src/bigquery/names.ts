/** Quotes an identifier for statements built as plain text. */
export function quoteIdentifier(name: string): string {
  return `\`${name.replaceAll("\\", "\\\\").replaceAll("`", "\\`")}\``;
}

/** Quotes a text literal; only for our own texts and the configuration's, never for data. */
export function quoteLiteral(text: string): string {
  return `'${JSON.stringify(text).slice(1, -1).replaceAll("'", "\\'")}'`;
}

/** Quotes a qualified name. */
export function quoteQualified(parts: readonly string[]): string {
  return parts.map(quoteIdentifier).join(".");
}
