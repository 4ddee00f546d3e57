/** Why rows are rejected before they cost a call. */
export const REJECT_MESSAGES: Readonly<Record<string, string>> = {
  missing_key: "The row has no key: a key column is null.",
  key_too_long:
    "The row's key (for validate_emails the address) is longer than 2,000 bytes; source_key is its beginning.",
  duplicate_key: "Another row of the input has the same key; only one of them is used.",
  no_identifier: "None of the mapped columns holds a value.",
  not_resolvable:
    "The service needs a name (first and last, or full) and at least one e-mail address or phone.",
};

/** Codes of rows that can't have a state of their own: every night finds them again, and keeps one open reject for each. */
export const WITHOUT_STATE: readonly string[] = ["missing_key", "key_too_long", "duplicate_key"];
