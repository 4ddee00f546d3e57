import { validateDetailed } from "node-cron";
import { instantOf, openZone, type Zone } from "./zone.ts";

interface Cron {
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

/** True if five fields are valid except that none of their months has the day: `0 0 30 2 *`. */
export function neverOccurs(text: string): boolean {
  const everyMonth = text.trim().split(/\s+/).toSpliced(3, 1, "*").join(" ");
  const month = text.trim().split(/\s+/)[3] ?? "";
  return parseCron(text) === null && parseCron(everyMonth) !== null && parseCron(`0 0 1 ${month} *`) !== null;
}

/** True if a calendar day matches the schedule; `dayMs` is its start as if in UTC. */
function isDayOf(cron: Cron, dayMs: number): boolean {
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

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** Longest wait for a 29 February, around a century year that is not a leap year. */
const HORIZON_MS = (8 * 366 + 2) * DAY_MS;

export interface Schedule {
  readonly cron: Cron;
  readonly zone: Zone;
}

/** One due time of a job. */
export interface Slot {
  /**
   * Unique per job. A slot at fixed hours is a wall-clock time, `2026-03-29T02:30 Europe/Berlin`;
   * a slot of an hourly schedule is an instant, `2026-03-29T00:30Z`.
   */
  readonly key: string;
  /** Due time in milliseconds since the epoch. */
  readonly atMs: number;
}

/** Parses the schedule of a job; null if the text is not a cron schedule. */
export function openSchedule(cronText: string, timezone: string): Schedule | null {
  const cron = parseCron(cronText);
  return cron && { cron, zone: openZone(timezone) };
}

/** Yields slots from `fromMs` (inclusive) on, in order; ends after some years without one. */
export function slotsFrom(schedule: Schedule, fromMs: number): Generator<Slot> {
  return schedule.cron.isEveryHour ? instantSlots(schedule, fromMs) : wallSlots(schedule, fromMs);
}

/** First slot after `afterMs`; null if there is none for years. */
export function nextSlot(schedule: Schedule, afterMs: number): Slot | null {
  const [slot] = slotsFrom(schedule, afterMs + 1);
  return slot ?? null;
}

/** Last slot from `sinceMs` to `untilMs`, both inclusive; null if there is none. */
export function lastSlot(schedule: Schedule, sinceMs: number, untilMs: number): Slot | null {
  let last: Slot | null = null;
  for (const slot of slotsFrom(schedule, sinceMs)) {
    if (slot.atMs > untilMs) break;
    last = slot;
  }
  return last;
}

/** Fixed hours: each time occurs once per matching day, even when clocks change. */
function* wallSlots({ cron, zone }: Schedule, fromMs: number): Generator<Slot> {
  // Starts a day earlier: a clock change may have skipped the end of that day.
  const firstDayMs = Math.floor((fromMs + zone.offsetMs(fromMs)) / DAY_MS) * DAY_MS - DAY_MS;
  for (let dayMs = firstDayMs; dayMs < fromMs + HORIZON_MS; dayMs += DAY_MS) {
    if (!isDayOf(cron, dayMs)) continue;
    for (const hour of cron.hours) {
      for (const minute of cron.minutes) {
        const wallMs = dayMs + hour * HOUR_MS + minute * MINUTE_MS;
        const atMs = instantOf(zone, wallMs);
        if (atMs >= fromMs) yield { key: `${minuteText(wallMs)} ${zone.name}`, atMs };
      }
    }
  }
}

/** Every hour: each instant with a matching wall-clock minute, including repeated hours. */
function* instantSlots({ cron, zone }: Schedule, fromMs: number): Generator<Slot> {
  const minutes = new Set(cron.minutes);
  let hourMs = Math.floor(fromMs / HOUR_MS) * HOUR_MS;
  let offsetMs = zone.offsetMs(hourMs);
  for (; hourMs < fromMs + HORIZON_MS; hourMs += HOUR_MS) {
    const nextOffsetMs = zone.offsetMs(hourMs + HOUR_MS);
    for (let atMs = hourMs; atMs < hourMs + HOUR_MS; atMs += MINUTE_MS) {
      const wallMs = atMs + (offsetMs === nextOffsetMs ? offsetMs : zone.offsetMs(atMs));
      if (atMs < fromMs || !minutes.has(new Date(wallMs).getUTCMinutes())) continue;
      if (isDayOf(cron, wallMs)) yield { key: `${minuteText(atMs)}Z`, atMs };
    }
    offsetMs = nextOffsetMs;
  }
}

/** `2026-03-29T02:30`. */
function minuteText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 16);
}
