import { type Expectation, type Milliseconds, text } from "./settings.ts";
import { neverOccurs, parseCron, wrongFieldOf } from "../../schedule/schedule.ts";

const DAY_MS = 86_400_000;

/** A month has 30 days, a year 365. */
const UNIT_MS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: DAY_MS,
  w: 7 * DAY_MS,
  mo: 30 * DAY_MS,
  y: 365 * DAY_MS,
};

/** Maximum duration: a hundred years. */
const MAX_DURATION_MS = 100 * 366 * DAY_MS;

const DURATION = /^(\d{1,9})([smhdw])$/;
const AGE = /^([1-9]\d{0,8})(d|w|mo|y)$/;

/** Milliseconds of a text of this form; null if invalid. */
function parse(form: RegExp, text: string): number | null {
  const [, count, unit = ""] = form.exec(text) ?? [];
  const milliseconds = Number(count) * (UNIT_MS[unit] ?? 0);
  return count !== undefined && milliseconds <= MAX_DURATION_MS ? milliseconds : null;
}

/** Parses a duration such as `30d` to milliseconds; null if invalid. */
export const durationMs = (duration: string) => parse(DURATION, duration);

/** Days of an age or duration, rounded up; null if it is neither. */
export function daysOf(text: string): number | null {
  const milliseconds = parse(AGE, text) ?? durationMs(text);
  return milliseconds === null ? null : Math.ceil(milliseconds / DAY_MS);
}

function timeSpan(form: RegExp, least: string, words: Pick<Expectation, "expects" | "hint">) {
  const leastMs = parse(form, least) ?? 0;
  const expectation = { ...words, pattern: form.source, isDuration: true } as const;
  return text(expectation, (value) => (parse(form, value) ?? -1) < leastMs).transform(
    (value) => (parse(form, value) ?? 0) as Milliseconds, // the brand only names the unit
  );
}

/** A duration of at least `least`. */
export function duration(least = "1s") {
  return timeSpan(DURATION, least, {
    expects: least === "1s" ? "a duration such as 15m" : `a duration of at least ${least}`,
    hint: "a whole number and a unit: s, m, h, d or w (45s, 15m, 12h, 90d, 2w)",
  });
}

/** An age of data, in days or longer units: what is older is paid for again, or removed. */
export function age(least = "1d") {
  return timeSpan(AGE, least, {
    expects: least === "1d" ? "an age such as 30d" : `an age of at least ${least}`,
    hint: "a whole number and a unit: d, w, mo or y (30d, 6w, 3mo, 1y)",
  });
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
