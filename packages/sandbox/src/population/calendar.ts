import { type HashKey, below, hash } from "./hash.ts";

/** Day 2026-01-01 as a number of days since 1970-01-01 (UTC). Later changes of the population are computed from here. */
export const BASE_DAY = 20_454;
export const DAY_MS = 86_400_000;

/** Texts of days from 1870 on. */
const texts: string[] = [];
const FIRST_DAY = -36_525;

/** Day number of a time in milliseconds since the epoch. */
export function dayOf(timeMs: number): number {
  return Math.floor(timeMs / DAY_MS);
}

/** `YYYY-MM-DD`. */
export function dayText(day: number): string {
  return (texts[day - FIRST_DAY] ??= new Date(day * DAY_MS).toISOString().slice(0, 10));
}

export function yearOf(day: number): number {
  return Number(dayText(day).slice(0, 4));
}

/** Completed years of age on `day`. */
export function ageOn(birthDay: number, day: number): number {
  const years = yearOf(day) - yearOf(birthDay);
  return dayText(day).slice(5) < dayText(birthDay).slice(5) ? years - 1 : years;
}

/** Days (ascending) from {@link BASE_DAY} to `day` of something that happens every `meanDays` on average. */
export function occurrences(
  key: HashKey,
  index: number,
  stream: number,
  meanDays: number,
  day: number,
): readonly number[] {
  const days: number[] = [];
  let at = BASE_DAY;
  for (let i = 0; ; i++) {
    at += 1 + below(hash(key, index, stream + i), meanDays * 2);
    if (at > day) return days;
    days.push(at);
  }
}

/** Keeps the last result of a function of a person and a day: several fields of one person are read in a row. */
export function keepLast<Made>(make: (index: number, day: number) => Made) {
  let last: { readonly index: number; readonly day: number; readonly made: Made } | null = null;
  return (index: number, day: number): Made => {
    if (last?.index !== index || last.day !== day) last = { index, day, made: make(index, day) };
    return last.made;
  };
}

export type WorldClock = ReturnType<typeof createWorldClock>;

/** Makes a clock that shows real time until it is moved by some days. */
export function createWorldClock() {
  const clock = {
    movedDays: 0,
    /** Milliseconds since the epoch. */
    nowMs: () => Date.now() + clock.movedDays * DAY_MS,
    /** Day number. */
    today: () => dayOf(clock.nowMs()),
  };
  return clock;
}

/**
 * ISO 8601 with six fractional digits; `microseconds` (0 to 999) are those below the millisecond. Endpoints differ in the
 * `zone` (section 2.1): `Z`, an offset, or none.
 */
export function stampText(timeMs: number, microseconds: number, zone: "Z" | "+00:00" | "" = "Z"): string {
  const iso = new Date(timeMs).toISOString();
  return iso.slice(0, 23) + String(microseconds).padStart(3, "0") + zone;
}

/** The same of microseconds since the epoch. */
export function microsText(us: number): string {
  return stampText(Math.floor(us / 1000), us % 1000);
}
