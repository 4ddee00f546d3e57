const DAY_MS = 86_400_000;

export interface Zone {
  readonly name: string;
  /** Offset of the wall clock from UTC at an instant, in milliseconds. */
  offsetMs(atMs: number): number;
}

const utc: Zone = { name: "UTC", offsetMs: () => 0 };

/** Returns a time zone by its IANA name; throws a RangeError if unknown. */
export function openZone(name: string): Zone {
  // The format of a zone takes 10 ms.
  if (name === utc.name) return utc;
  const format = new Intl.DateTimeFormat("en-US", {
    timeZone: name,
    hourCycle: "h23",
    era: "short",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
  });
  return {
    name,
    offsetMs(atMs) {
      const parts: Record<string, number> = {};
      for (const { type, value } of format.formatToParts(atMs)) parts[type] = Number(value);
      const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
      const wholeSecondMs = Math.floor(atMs / 1000) * 1000;
      return Date.UTC(year, month - 1, day, hour, minute, second) - wholeSecondMs;
    },
  };
}

/**
 * Instant of a wall-clock time (`wallMs`: that time as if in UTC). A time skipped by a clock change
 * becomes the first instant after the change; a repeated time becomes its first occurrence.
 */
export function instantOf(zone: Zone, wallMs: number): number {
  // Offsets stay within a day, and no zone changes its clock twice within two days.
  const before = zone.offsetMs(wallMs - DAY_MS);
  const after = zone.offsetMs(wallMs + DAY_MS);
  const candidates = [wallMs - before, wallMs - after].toSorted((a, b) => a - b);
  const found = candidates.find((atMs) => atMs + zone.offsetMs(atMs) === wallMs);
  return found ?? changeBetween(zone, wallMs - DAY_MS, wallMs + DAY_MS);
}

/** First instant after `fromMs`, and by `toMs`, with another offset. */
function changeBetween(zone: Zone, fromMs: number, toMs: number): number {
  const before = zone.offsetMs(fromMs);
  let [last, first] = [fromMs, toMs];
  while (first - last > 1) {
    const middle = Math.floor((last + first) / 2);
    if (zone.offsetMs(middle) === before) last = middle;
    else first = middle;
  }
  return first;
}

/** Words of IANA names that aren't simply capitalized. */
const WORDS = new Map(
  (
    "of es au McMurdo DumontDUrville ComodRivadavia DeNoronha EasterIsland BajaNorte BajaSur US GB NZ CHAT ACT LHI NSW IN PRC " +
    "ROC ROK W SU CET EET MET WET EST HST MST GMT GMT0 UTC UCT EST5EDT CST6CDT MST7MDT PST8PDT"
  )
    .split(" ")
    .map((word) => [word.toLowerCase(), word]),
);
const ALWAYS_UTC = /^(?:etc\/)?(?:utc|uct|zulu|universal|greenwich|gmt(?:[+-]?0)?)$/i;

/**
 * Normalizes a zone's name: IANA's case, and `UTC` for all of its names. Other aliases
 * (`Asia/Calcutta`) are kept, since users will search for them.
 */
export function spellZone(name: string): string {
  if (ALWAYS_UTC.test(name)) return "UTC";
  return name
    .toLowerCase()
    .replace(/[a-z0-9]+/g, (word) => WORDS.get(word) ?? word.charAt(0).toUpperCase() + word.slice(1));
}
