/** Maximum wait for a Retry-After header. */
export const MAX_RETRY_AFTER_MS = 5 * 60_000;

/** HTTP dates start with the name of a day. Date.parse alone accepts texts that are not dates. */
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? /u;

/**
 * Parses a Retry-After header (seconds or HTTP date) to milliseconds, without an upper limit; null if missing or invalid.
 */
export function parseRetryAfter(header: string | null, nowMs: number): number | null {
  const text = header?.trim() ?? "";
  if (/^\d+(?:\.\d+)?$/u.test(text)) return Math.round(Number(text) * 1000);
  if (!HTTP_DATE.test(text)) return null;
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : Math.max(0, at - nowMs);
}
