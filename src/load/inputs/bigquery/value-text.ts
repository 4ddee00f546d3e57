/** Removes trailing zeros of six fractional digits. */
function trimmed(text: string): string {
  return `REGEXP_REPLACE(${text}, r'[.]?0*$', '')`;
}

/** Conversion of each type to text, equal to Postgres's, so that equal values have equal hashes. */
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

/** Converts a value to text, null to null. */
export function valueText(value: string, typeName: string): string {
  return byType[typeName]?.(value) ?? `CAST(${value} AS STRING)`;
}
