import { quoteLiteral } from "../db/names.ts";
import { BLANKS, withoutBlanksAround } from "../inputs/input-fields.ts";

/**
 * Normalizes an address for comparison: trimmed, with the letters A to Z in lower case. Other letters stay
 * unchanged, because databases disagree about their case.
 */
export function normalizedEmail(address: string): string {
  return withoutBlanksAround(address).replaceAll(/[A-Z]/gu, (letter) =>
    String.fromCharCode(letter.charCodeAt(0) + 32),
  );
}

const CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/** Normalizes an address in SQL, like {@link normalizedEmail}. */
export function normalizedAddress(expression: string): string {
  const trimmed = `btrim(${expression}, ${quoteLiteral(BLANKS)})`;
  return `translate(${trimmed}, '${CAPITALS}', '${CAPITALS.toLowerCase()}')`;
}
