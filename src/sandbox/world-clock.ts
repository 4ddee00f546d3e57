import { DAY_MS, dayOf } from "./population/calendar.ts";

/** The sandbox's time: real time, moved by some days. */
export interface WorldClock {
  /** Milliseconds since the epoch. */
  nowMs(): number;
  /** Day number (see `population/calendar.ts`). */
  today(): number;
  movedDays: number;
}

/** Makes a clock that shows real time until it is moved. */
export function createWorldClock(): WorldClock {
  const clock: WorldClock = {
    movedDays: 0,
    nowMs: () => Date.now() + clock.movedDays * DAY_MS,
    today: () => dayOf(clock.nowMs()),
  };
  return clock;
}

/** Form of instants (section 2.1): `Z`, an offset, or no zone. */
export type StampStyle = "z" | "offset" | "zoneless";
const ENDINGS = { z: "Z", offset: "+00:00", zoneless: "" } satisfies Record<StampStyle, string>;

/** ISO 8601 with six fractional digits; `microseconds` (0 to 999) are those below the millisecond. */
export function stampText(timeMs: number, microseconds: number, style: StampStyle): string {
  const iso = new Date(timeMs).toISOString();
  return iso.slice(0, 23) + String(microseconds).padStart(3, "0") + ENDINGS[style];
}
