/** Shorter secrets would also redact ordinary words. */
const SHORTEST_SECRET = 6;

const LOOKS_LIKE_AN_ADDRESS = /[^\s"'<>(),;:=[\]{}\\]+@[^\s"'<>(),;:=[\]{}\\]+\.[a-z]{2,}/gi;

/** Last safeguard of the log: no module should pass a secret or address to it. */
export interface Scrubber {
  /** Redacts this text from now on. */
  hide(secret: string): void;
  /** Redacts secrets and everything that looks like an e-mail address. */
  scrub(text: string): string;
}

/** Creates a scrubber without secrets. */
export function createScrubber(): Scrubber {
  const secrets = new Set<string>();
  return {
    hide(secret) {
      if (secret.length < SHORTEST_SECRET) return;
      secrets.add(secret);
      // The same text inside a JSON string.
      secrets.add(JSON.stringify(secret).slice(1, -1));
    },
    scrub(text) {
      let clean = text;
      for (const secret of secrets) clean = clean.replaceAll(secret, "[redacted]");
      return clean.replaceAll(LOOKS_LIKE_AN_ADDRESS, "[redacted]");
    },
  };
}
