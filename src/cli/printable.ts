/** Colours and other renditions; the only sequences that stay. */
const RENDITION = String.raw`\u001b\[[0-9;]*m`;

/** Control characters except tab and line end, and characters that change the direction of text. */
const UNPRINTABLE = new RegExp(
  String.raw`(${RENDITION})|[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]`,
  "gu",
);

/** Replaces terminal control characters from tables, the service or files by U+FFFD. */
export function printable(text: string): string {
  return text.replaceAll(UNPRINTABLE, (_match, rendition: string | undefined) => rendition ?? "\uFFFD");
}
