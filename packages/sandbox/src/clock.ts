import { DAY_MS, dayOf } from "./population/calendar.ts";

export type WorldClock = ReturnType<typeof createWorldClock>;

/** Makes a clock that shows real time until it is moved by some days. */
export function createWorldClock() {
  const clock = {
    movedDays: 0,
    /** Milliseconds since the epoch. */
    nowMs: () => Date.now() + clock.movedDays * DAY_MS,
    /** Day number (see `population/calendar.ts`). */
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
