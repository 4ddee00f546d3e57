/** Longest wait that a Retry-After header can ask of us. */
export const MAX_RETRY_AFTER_MS = 5 * 60_000;

/** HTTP dates begin with the name of a day; Date.parse alone would take much that is no date. */
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? /u;

/**
 * Milliseconds that a Retry-After header (seconds or an HTTP date) asks to wait, not bounded; null when there is none or
 * it can't be read.
 */
export function parseRetryAfter(header: string | null, nowMs: number): number | null {
  const text = header?.trim() ?? "";
  if (/^\d+(?:\.\d+)?$/u.test(text)) return Math.round(Number(text) * 1000);
  if (!HTTP_DATE.test(text)) return null;
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : Math.max(0, at - nowMs);
}
