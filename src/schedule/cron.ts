import { validateDetailed } from "node-cron";

/** Parsed cron schedule of five fields. */
export interface Cron {
  /** Ascending, 0 to 59. */
  readonly minutes: readonly number[];
  /** Ascending, 0 to 23. */
  readonly hours: readonly number[];
  /** 1 to 31. */
  readonly days: ReadonlySet<number>;
  /** 1 to 12. */
  readonly months: ReadonlySet<number>;
  /** 0 (Sunday) to 6. */
  readonly weekdays: ReadonlySet<number>;
  /** True if day and weekday are both restricted; as in cron, either of them then matches. */
  readonly isEitherDay: boolean;
  /** True if every hour matches: the schedule then means instants, otherwise wall-clock times. */
  readonly isEveryHour: boolean;
}

/** Days of each month in a leap year. */
const LONGEST_MONTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] as const;

/** Parses five fields of numbers, names, ranges, steps and lists; null if invalid or if no day ever matches. */
export function parseCron(text: string): Cron | null {
  const parts = text.trim().split(/\s+/);
  if (parts.length !== 5) return null;
  const { valid, fields } = validateDetailed(parts.join(" "));
  if (!valid || !fields) return null;
  const [days, months, weekdays] = [fields.dayOfMonth, fields.month, fields.dayOfWeek].map(numbersOf);
  // `L`, `15W`, `5#2`: extensions that differ between crons.
  if (!days || !months || !weekdays) return null;
  const cron = {
    minutes: ascending(fields.minute),
    hours: ascending(fields.hour),
    days,
    months,
    weekdays,
    isEitherDay: !isAnyDay(parts[2]) && !isAnyDay(parts[4]),
    isEveryHour: new Set(fields.hour).size === 24,
  };
  return happens(cron) ? cron : null;
}

const FIELD_NAMES = {
  second: "second",
  minute: "minute",
  hour: "hour",
  dayOfMonth: "day of month",
  month: "month",
  dayOfWeek: "day of week",
} as const;

/** Name of the first invalid one of five fields; null if each is valid by itself. */
export function wrongFieldOf(text: string): string | null {
  const field = validateDetailed(text.trim()).errors[0]?.field;
  return field === undefined
    ? null
    : (Object.entries(FIELD_NAMES).find(([key]) => key === field)?.[1] ?? null);
}

/** True if a calendar day matches the schedule; `dayMs` is its start as if in UTC. */
export function isDayOf(cron: Cron, dayMs: number): boolean {
  const date = new Date(dayMs);
  if (!cron.months.has(date.getUTCMonth() + 1)) return false;
  const isDay = cron.days.has(date.getUTCDate());
  const isWeekday = cron.weekdays.has(date.getUTCDay());
  return cron.isEitherDay ? isDay || isWeekday : isDay && isWeekday;
}

function isAnyDay(field: string | undefined): boolean {
  return field === undefined || /^[*?]/.test(field);
}

function happens({ days, months, isEitherDay }: Cron): boolean {
  return isEitherDay || [...months].some((month) => Math.min(...days) <= (LONGEST_MONTHS[month - 1] ?? 0));
}

function numbersOf(field: readonly (number | string)[]): ReadonlySet<number> | null {
  const numbers = field.filter((value) => typeof value === "number");
  return numbers.length === field.length ? new Set(numbers) : null;
}

function ascending(numbers: readonly number[]): readonly number[] {
  return [...new Set(numbers)].toSorted((a, b) => a - b);
}
