/** Control characters except tab and line end, and characters that change the direction of text. */
const UNPRINTABLE = new RegExp(
  String.raw`[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]`,
  "gu",
);

/** Replaces terminal control characters from tables, the service or files by U+FFFD. Our own colors come after it. */
export function printable(text: string): string {
  return text.replaceAll(UNPRINTABLE, "\uFFFD");
}

/** The same for JSON, which stays equal: escapes the characters. */
export function printableJson(text: string): string {
  return text.replaceAll(UNPRINTABLE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
