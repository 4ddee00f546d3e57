/** Wall clock of one time zone; steps of {@link QUARTER_MS} fit every zone of today. */
export interface LocalTime {
  /** Milliseconds that the wall clock is ahead of UTC. */
  offsetMs(atMs: number): number;
  /** Local day number (days since 1970-01-01 on the wall clock). */
  dayAt(atMs: number): number;
  /** The first instant of a local day, also where midnight is skipped. */
  startOfDay(day: number): number;
  /** ISO 8601 with the zone's offset, whole seconds. */
  text(atMs: number): string;
}

/** No zone of today is ahead by anything but whole quarters of an hour. */
export const QUARTER_MS = 15 * 60_000;
const DAY_MS = 86_400_000;

const two = (number: number) => String(Math.floor(number)).padStart(2, "0");

/** Null for a name that isn't an IANA time zone. */
export function localTime(timeZone: string): LocalTime | null {
  // Offsets such as +05:00, which Intl takes too, are no names.
  if (!/^[A-Za-z]/.test(timeZone)) return null;
  let format: Intl.DateTimeFormat;
  try {
    format = new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "medium" });
  } catch {
    return null;
  }
  const known = new Map<number, number>();
  const offsetMs = (atMs: number): number => {
    const quarter = Math.floor(atMs / QUARTER_MS);
    const kept = known.get(quarter);
    if (kept !== undefined) return kept;
    // Swedish writes 2026-03-08 02:30:00.
    const wall = Date.parse(`${format.format(quarter * QUARTER_MS).replace(" ", "T")}Z`);
    const offset = wall - quarter * QUARTER_MS;
    known.set(quarter, offset);
    return offset;
  };
  const dayAt = (atMs: number) => Math.floor((atMs + offsetMs(atMs)) / DAY_MS);
  return {
    offsetMs,
    dayAt,
    startOfDay(day) {
      const guess = day * DAY_MS - offsetMs(day * DAY_MS);
      let atMs = guess - 3 * 3_600_000;
      if (dayAt(guess) === day && dayAt(guess - QUARTER_MS) < day) return guess;
      while (dayAt(atMs) < day) atMs += QUARTER_MS;
      return atMs;
    },
    text(atMs) {
      const offset = offsetMs(atMs);
      const minutes = Math.abs(offset) / 60_000;
      const wall = new Date(atMs + offset).toISOString().slice(0, 19);
      return `${wall}${offset < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
    },
  };
}
