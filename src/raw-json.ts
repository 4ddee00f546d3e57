/** Exact JSON numbers: what the language has since ES2025 and TypeScript's own library does not declare yet. */
declare global {
  interface JSON {
    /** An object that JSON.stringify writes as the given number, digit for digit. */
    rawJSON(text: string): { readonly rawJSON: string };
    /** Whether a value came from {@link JSON.rawJSON}. */
    isRawJSON(value: unknown): value is { readonly rawJSON: string };
  }
}

/** The source text of a number that a double can't carry, or null for any other value. */
export function rawNumber(value: unknown): string | null {
  return JSON.isRawJSON(value) ? value.rawJSON : null;
}
