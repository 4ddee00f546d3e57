/** Quotes an identifier. */
export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** Quotes a text literal. */
export function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
