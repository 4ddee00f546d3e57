import { type Meaning, qualifiers, wordsByMeaning } from "./column-words.ts";

/** A column's meaning by its name. */
export interface Recognized {
  readonly meaning: Meaning;
  /** Other words of the name: `billing` of `billing_city`. */
  readonly qualifiers: readonly string[];
}

/** Maximum length of a field's name in words: `adresse de facturation ligne 1`. */
const MAX_WORDS = 5;

/** Splits `WorkEmail2`, `work-email_2` and `Straße` into words without accents. */
export function wordsOf(name: string): readonly string[] {
  return name
    .replaceAll("ß", "ss")
    .replaceAll(/[äöüÄÖÜ]/gu, (letter) => `${letter}e`)
    .normalize("NFD")
    .replaceAll(/\p{M}/gu, "")
    .replaceAll(/(\p{Ll}|\d)(\p{Lu})/gu, "$1 $2")
    .replaceAll(/(\p{Lu})(\p{Lu}\p{Ll})/gu, "$1 $2")
    .replaceAll(/(\p{L})(\d)/gu, "$1 $2")
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== "" && !FILLERS.has(word));
}

const FILLERS: ReadonlySet<string> = new Set([
  "the",
  "of",
  "de",
  "du",
  "des",
  "der",
  "la",
  "le",
  "und",
  "and",
]);

/** Recognizes the field that a column holds by its name; null for none. */
export function recognizeColumn(name: string): Recognized | null {
  const words = wordsOf(name);
  for (const [meaning, known] of MEANINGS) {
    // The longest match first: `email address` is not an address.
    for (let length = Math.min(words.length, MAX_WORDS); length > 0; length--) {
      for (let start = 0; start + length <= words.length; start++) {
        const others = [...words.slice(0, start), ...words.slice(start + length)];
        if (!known.has(words.slice(start, start + length).join(""))) continue;
        if (others.every((word) => allowedAround(meaning).has(word))) return { meaning, qualifiers: others };
      }
    }
  }
  return null;
}

// The cast restores the key type that Object.entries loses.
const MEANINGS = Object.entries(wordsByMeaning) as readonly [Meaning, ReadonlySet<string>][];

function allowedAround(meaning: Meaning): ReadonlySet<string> {
  if (meaning === "emails" || meaning === "phones") return qualifiers.contact;
  if (/name/u.test(meaning)) return qualifiers.name;
  if (/address|city|state|zip/u.test(meaning)) return qualifiers.address;
  return qualifiers.none;
}
