/** Shorter secrets would also redact ordinary words of a log line. */
const SHORTEST_SECRET = 6;
/** The same for results: a password such as `postgres` must not change the JSON that programs parse. */
const SHORTEST_SECRET_OF_RESULTS = 16;

/** The lengths are those that an address can have; without them the time would grow with the square of a line's length. */
const LOOKS_LIKE_AN_ADDRESS = /[^\s"'<>(),;:=[\]{}\\@]{1,64}@[^\s"'<>(),;:=[\]{}\\@]{1,255}\.[a-z]{2,63}/gi;

/** Last safeguard of the log: no module should pass a secret or address to it. */
export interface Scrubber {
  /** Redacts this text from now on. */
  hide(secret: string): void;
  /** Redacts long secrets, for results of commands. */
  strike(text: string): string;
  /** Redacts secrets and everything that looks like an e-mail address. */
  scrub(line: string): string;
}

/** Creates a scrubber without secrets. */
export function createScrubber(): Scrubber {
  const secrets = new Set<string>();
  const redact = (text: string, shortest: number) => {
    let clean = text;
    for (const secret of secrets) {
      if (secret.length >= shortest) clean = clean.replaceAll(secret, "[redacted]");
    }
    return clean;
  };
  return {
    hide(secret) {
      if (secret.length < SHORTEST_SECRET) return;
      secrets.add(secret);
      // The same text inside a JSON string and inside an address.
      secrets.add(JSON.stringify(secret).slice(1, -1));
      secrets.add(encodeURIComponent(secret));
    },
    strike: (text) => redact(text, SHORTEST_SECRET_OF_RESULTS),
    scrub: (line) => redact(line, SHORTEST_SECRET).replaceAll(LOOKS_LIKE_AN_ADDRESS, "[redacted]"),
  };
}
