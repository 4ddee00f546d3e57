/** Settings that change the text form of values. */
export const ODD_SETTINGS = [
  "TimeZone = 'Asia/Kolkata'",
  "DateStyle = 'German, DMY'",
  "IntervalStyle = 'sql_standard'",
  "extra_float_digits = -15",
  "bytea_output = 'escape'",
  "array_nulls = off",
  "quote_all_identifiers = on",
  "standard_conforming_strings = off",
  "escape_string_warning = off",
  "default_transaction_isolation = 'serializable'",
  "lc_monetary = 'C'",
  "xmlbinary = 'hex'",
];
