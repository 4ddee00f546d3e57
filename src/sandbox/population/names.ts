import { pick } from "./hash.ts";
import { ORIGINS } from "./names-data.ts";

/** One name. */
export interface Name {
  /** As written, composed (NFC). */
  readonly text: string;
  /** As some systems store it, decomposed (NFD); equal to `text` where nothing decomposes. */
  readonly decomposed: string;
  /** Lower-case Latin letters, for e-mail addresses and profile links. */
  readonly slug: string;
}

/** The names of one origin. */
export interface OriginNames {
  readonly men: readonly (readonly Name[])[];
  readonly women: readonly (readonly Name[])[];
  readonly last: readonly Name[];
  readonly familyFirst: "spaced" | "joined" | null;
}

function latinLetters(text: string): string {
  return text
    .normalize("NFD")
    .toLowerCase()
    .replace(/[^a-z]/g, "");
}

function readNames(list: string): readonly Name[] {
  return list.split(",").map((entry) => {
    const [native = "", latin] = entry.split("=");
    const text = native.normalize("NFC");
    return { text, decomposed: text.normalize("NFD"), slug: latinLetters(latin ?? native) };
  });
}

const origins: readonly OriginNames[] = ORIGINS.map((origin) => ({
  men: origin.men.map(readNames),
  women: origin.women.map(readNames),
  last: readNames(origin.last),
  familyFirst: origin.familyFirst ?? null,
}));

/** One entry per thousandth of the families. */
const byThousandth = ORIGINS.flatMap((origin, i) => Array.from({ length: origin.weight }, () => i));

/** The names of the origin that a hash falls on. */
export function originOf(bits: number): OriginNames {
  const origin = origins[pick(byThousandth, bits)];
  if (!origin) throw new Error("Every thousandth has an origin.");
  return origin;
}

/** A name reduced to what counts when two are compared: no case, accents, spaces or punctuation; any script. */
export function comparableName(text: string): string {
  return text
    .normalize("NFKD")
    .replace(/[^\p{L}\p{N}]/gu, "")
    .toLowerCase();
}
