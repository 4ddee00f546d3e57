import { type HashKey, below, hash } from "./hash.ts";

/**
 * Days are whole numbers since 1970-01-01 (UTC). The population is described as of {@link BASE_DAY}; what happens
 * to people afterwards is computed from there.
 */
export const BASE_DAY = 20_454; // 2026-01-01

const DAY_MS = 86_400_000;
const TEXT_OFFSET = 36_525; // texts are kept from 1870 on
const texts: string[] = [];

/** The day that a time (milliseconds since the epoch) falls on. */
export function dayOf(timeMs: number): number {
  return Math.floor(timeMs / DAY_MS);
}

/** `YYYY-MM-DD`. */
export function dayText(day: number): string {
  const known = texts[day + TEXT_OFFSET];
  if (known !== undefined) return known;
  const text = new Date(day * DAY_MS).toISOString().slice(0, 10);
  texts[day + TEXT_OFFSET] = text;
  return text;
}

/** `YYYY-MM`. */
export function monthText(day: number): string {
  return dayText(day).slice(0, 7);
}

/** The calendar year of a day. */
export function yearOf(day: number): number {
  return Number(dayText(day).slice(0, 4));
}

/** Completed years on `day` of somebody born on `birthDay`. */
export function ageOn(birthDay: number, day: number): number {
  const years = yearOf(day) - yearOf(birthDay);
  return dayText(day).slice(5) < dayText(birthDay).slice(5) ? years - 1 : years;
}

/** The days (ascending) after {@link BASE_DAY} up to `day` on which something happens that happens every `meanDays`. */
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
