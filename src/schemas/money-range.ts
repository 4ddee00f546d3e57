import type { Cell } from "./convert.ts";
import type { Derivation } from "./derive.ts";
import type { PiiClass } from "./field.ts";
import { column } from "./table.ts";

const AMOUNT = /^(-?)\$?(\d{1,3}(?:,\d{3})+|\d+)([kmb]?)$/;
const ZEROS: Readonly<Record<string, string>> = { "": "", k: "000", m: "000000", b: "000000000" };
/** Longest text that is read. */
const LONGEST = 60;
/** Largest amount that every destination stores. */
const LARGEST = 10n ** 18n - 1n;
const UNKNOWN: readonly Cell[] = [null, null];

/** Whole dollars; null for another text. */
function readAmount(text: string): bigint | null {
  const [, sign, digits, unit = ""] = AMOUNT.exec(text) ?? [];
  if (digits === undefined) return null;
  const amount = BigInt(`${digits.replaceAll(",", "")}${ZEROS[unit]}`);
  if (amount > LARGEST) return null;
  return sign === "" ? amount : -amount;
}

/**
 * Returns the bounds of a range in US dollars, as its text states them: `$25,000-$49,999`, `$25K to $50K`, `<$25,000`,
 * `under $25,000`, `$250,000+`, `over $250,000`. Null for an open end, and for any other text.
 */
export function readMoneyRange(text: string): readonly Cell[] {
  if (text.length > LONGEST) return UNKNOWN;
  const range = text.trim().toLowerCase();
  const below = /^(?:<=?|under |less than |up to )\s*(.+)$/.exec(range)?.[1];
  if (below !== undefined) return [null, readAmount(below)?.toString() ?? null];
  const above = (/^(?:>=?|over |more than )\s*(.+)$/.exec(range) ??
    /^(.+?)(?:\+| or more)$/.exec(range))?.[1];
  if (above !== undefined) return [readAmount(above)?.toString() ?? null, null];
  const [, from = "", to = ""] = /^(.+?)\s*(?:-|–|\sto\s)\s*(.+)$/.exec(range) ?? [];
  const [min, max] = [readAmount(from), readAmount(to)];
  if (min === null || max === null || min > max) return UNKNOWN;
  // In `$50-99K` the unit may stand for both ends.
  const isShort = min > 0n && min < 1000n && /[kmb]$/.test(to) && !/[kmb]$/.test(from);
  return isShort ? UNKNOWN : [min.toString(), max.toString()];
}

/** Declares `X_min` and `X_max` of a field `X_range`. @param amount what the range is of */
export function moneyRange(from: string, pii: PiiClass, amount: string): Derivation {
  const name = from.replace(/_range$/, "");
  const unit = "in US dollars, as the text states it (inclusive)";
  return {
    from,
    columns: [
      column(`${name}_min`, "numeric", pii, `Lower end of the ${amount}, ${unit}; null if open or unknown.`),
      column(`${name}_max`, "numeric", pii, `Upper end of the ${amount}, ${unit}; null if open or unknown.`),
    ],
    derive: readMoneyRange,
  };
}
