/** Exact JSON numbers of ES2025, which TypeScript's library does not declare yet. */
declare global {
  interface JSON {
    /** Object that JSON.stringify writes as the given number, digit for digit. */
    rawJSON(text: string): { readonly rawJSON: string };
    /** True if a value came from {@link JSON.rawJSON}. */
    isRawJSON(value: unknown): value is { readonly rawJSON: string };
  }
}

/** Source text of a number that a double can't represent; null for any other value. */
export function rawNumber(value: unknown): string | null {
  return JSON.isRawJSON(value) ? value.rawJSON : null;
}
