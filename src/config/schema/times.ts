import type { SettingProblem } from "../problems.ts";
import { type Milliseconds, text } from "./settings.ts";
import { countText } from "../../figures.ts";
import { neverOccurs, parseCron, wrongFieldOf } from "../../schedule/schedule.ts";

const UNIT_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;

/** Maximum duration: a hundred years. */
const MAX_DURATION_MS = 100 * 366 * UNIT_MS.d;

const DURATION = /^(\d{1,9})([smhdw])$/;

/** Parses a duration such as `30d` to milliseconds; null if invalid. */
export function durationMs(duration: string): number | null {
  const match = DURATION.exec(duration);
  if (!match) return null;
  const [, count, unit] = match;
  const milliseconds = Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS]; // the pattern allows only these
  return milliseconds <= MAX_DURATION_MS ? milliseconds : null;
}

/** A duration of at least `least`. */
export function duration(least = "1s") {
  const leastMs = durationMs(least) ?? 0;
  const expects = leastMs > 1000 ? `a duration of at least ${least}` : "a duration such as 15m";
  return text(
    {
      expects,
      hint: "a whole number and a unit: s, m, h, d or w (45s, 15m, 12h, 90d, 2w)",
      pattern: DURATION.source,
      isDuration: true,
    },
    (value) => (durationMs(value) ?? -1) < leastMs,
  ).transform((value) => (durationMs(value) ?? 0) as Milliseconds); // the brand only names the unit
}

const AGE_DAYS = { d: 1, w: 7, mo: 30, y: 365 } as const;

/** Units of ages and times, each with its other spellings. */
const SPELLINGS = ["s sec second", "m min minute", "h hour", "d day", "w week", "mo mon month", "y year"];

/** Unit of a word in the singular or plural; null for any other. */
function unitOf(word: string): keyof typeof AGE_DAYS | keyof typeof TIMES | null {
  const names = SPELLINGS.map((line) => line.split(" "));
  const [unit = null] =
    names.find((known) => known.includes(word)) ??
    names.find((known) => known.includes(word.replace(/s$/, ""))) ??
    [];
  return unit as ReturnType<typeof unitOf>; // the first word of a line
}

/** Units too small for an age, in words. */
const TIMES = { s: "second", m: "minute", h: "hour" } as const;

const AGE = /^([1-9]\d{0,8})(d|w|mo|y)$/;

/** Parses an age of data such as `3mo` to milliseconds; null if invalid. A month has 30 days, a year 365. */
function ageMs(age: string): number | null {
  const [, count, unit] = AGE.exec(age) ?? [];
  if (unit === undefined) return null;
  const milliseconds = Number(count) * AGE_DAYS[unit as keyof typeof AGE_DAYS] * UNIT_MS.d; // the pattern allows only these
  return milliseconds <= MAX_DURATION_MS ? milliseconds : null;
}

/** Days of an age or duration, rounded up; null if it is neither. */
export function daysOf(text: string): number | null {
  const milliseconds = ageMs(text) ?? durationMs(text);
  return milliseconds === null ? null : Math.ceil(milliseconds / UNIT_MS.d);
}

/** An age of data, in days or longer units: what is older is paid for again, or removed. */
export function age(least = "1d") {
  const leastMs = ageMs(least) ?? 0;
  const expects = least === "1d" ? "an age such as 30d" : `an age of at least ${least}`;
  return text({ expects, hint: AGE_HINT, pattern: AGE.source, isDuration: true }, (value) => {
    if (ageMs(value) !== null) return (ageMs(value) ?? 0) < leastMs;
    const problem = likelyAge(value, expects);
    const written = /^write (\w+)$/.exec(problem?.hint ?? "")?.[1];
    const isRefused = written !== undefined && (ageMs(written) ?? 0) < leastMs;
    return isRefused ? true : (problem ?? true);
  }).transform((value) => (ageMs(value) ?? 0) as Milliseconds); // the brand only names the unit
}

const AGE_HINT = "a whole number and a unit: d, w, mo or y (30d, 6w, 3mo, 1y)";

/** Problem of an age in another unit or spelling, with its likely meaning; null for any other text. */
function likelyAge(value: string, expects: string): SettingProblem | null {
  const [, count = "", word = ""] = /^([1-9]\d{0,8}) ?([A-Za-z]+)$/.exec(value) ?? [];
  const name = word.toLowerCase();
  const unit = word === "M" ? "mo" : unitOf(name);
  if (unit === null) return null;
  if (!isTime(unit)) return { message: `must be ${expects}`, hint: `write ${count}${unit}` };
  const days = (Number(count) * UNIT_MS[unit]) / UNIT_MS.d;
  if (days >= 1) {
    return { message: `is in ${TIMES[unit]}s`, hint: Number.isInteger(days) ? `write ${days}d` : AGE_HINT };
  }
  const meaning =
    word.length === 1 ? `, and ${count}${word} would be ${countText(Number(count), TIMES[unit])}` : "";
  const months = `for ${countText(Number(count), "month")} write ${count}mo`;
  return { message: `must be at least a day${meaning}`, hint: name === "m" ? months : "write 1d or more" };
}

function isTime(unit: string): unit is keyof typeof TIMES {
  return Object.hasOwn(TIMES, unit);
}

const CRON = 'minute, hour, day of month, month, day of week: "15 1 * * *" is every day at 01:15';

/** Names that some cron programs take instead of five fields. */
const CRON_MACROS: Readonly<Record<string, string>> = {
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
  "@monthly": "0 0 1 * *",
  "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@hourly": "0 * * * *",
};

const CRON_FORM = String.raw`^\s*(?:\S+\s+){4}\S+\s*$`;

export function cronSchedule() {
  return text({ expects: "a cron schedule of five fields", hint: CRON, pattern: CRON_FORM }, (value) => {
    if (parseCron(value) !== null) return false;
    const macro = CRON_MACROS[value.trim().toLowerCase()];
    if (macro !== undefined) {
      return { message: "must be a cron schedule of five fields", hint: `write "${macro}"` };
    }
    const fields = value.trim().split(/\s+/).length;
    if (fields === 6) {
      return {
        message: "has six cron fields, and must have five",
        hint: "remove the first one, the seconds",
      };
    }
    const isTime = /^\d{1,2}:\d{2}$/.test(value);
    if (fields !== 5 || isTime) return true;
    if (neverOccurs(value)) {
      return {
        message: "never occurs: none of its months has that day",
        hint: "correct the day or the month",
      };
    }
    const wrong = wrongFieldOf(value);
    return wrong === null ? true : { message: `has an invalid ${wrong}`, hint: CRON };
  });
}
