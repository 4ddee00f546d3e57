/** Shorter texts would also strike out ordinary words. */
const SHORTEST_SECRET = 6;

const LOOKS_LIKE_AN_ADDRESS = /[^\s"'<>(),;:=[\]{}\\]+@[^\s"'<>(),;:=[\]{}\\]+\.[a-z]{2,}/gi;

/** A last net below everything that is logged: no module should let a secret or an address get this far. */
export interface Scrubber {
  /** From now on this text is struck out. */
  hide(secret: string): void;
  /** The text without the hidden ones, and without anything that looks like an e-mail address. */
  scrub(text: string): string;
}

/** A scrubber that knows no secret yet. */
export function createScrubber(): Scrubber {
  const secrets = new Set<string>();
  return {
    hide(secret) {
      if (secret.length < SHORTEST_SECRET) return;
      secrets.add(secret);
      // The same text as it stands inside a JSON string.
      secrets.add(JSON.stringify(secret).slice(1, -1));
    },
    scrub(text) {
      let clean = text;
      for (const secret of secrets) clean = clean.replaceAll(secret, "[redacted]");
      return clean.replaceAll(LOOKS_LIKE_AN_ADDRESS, "[redacted]");
    },
  };
}
