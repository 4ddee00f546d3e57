/** Texts with six fractional digits, without the zeros that end them. */
function trimmed(text: string): string {
  return `REGEXP_REPLACE(${text}, r'[.]?0*$', '')`;
}

/** How a value of each type becomes text: as in the Postgres warehouse, so that equal values have equal hashes there and here. */
const byType: Readonly<Record<string, (value: string) => string>> = {
  STRING: (value) => value,
  TIMESTAMP: (value) =>
    `CONCAT(${trimmed(`FORMAT_TIMESTAMP('%Y-%m-%d %H:%M:%E6S', ${value}, 'UTC')`)}, '+00')`,
  DATETIME: (value) => trimmed(`FORMAT_DATETIME('%Y-%m-%d %H:%M:%E6S', ${value})`),
  TIME: (value) => trimmed(`FORMAT_TIME('%H:%M:%E6S', ${value})`),
  BYTES: (value) => `CONCAT('\\\\x', TO_HEX(${value}))`,
  JSON: (value) => `TO_JSON_STRING(${value})`,
  STRUCT: (value) => `TO_JSON_STRING(${value})`,
  GEOGRAPHY: (value) => `ST_ASTEXT(${value})`,
};

/** A value as text, null for null. */
export function valueText(value: string, typeName: string): string {
  return byType[typeName]?.(value) ?? `CAST(${value} AS STRING)`;
}
