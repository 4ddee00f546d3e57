import { dayOf } from "./population/calendar.ts";

/** The sandbox's time: real time plus days by which it was moved. */
export interface WorldClock {
  /** Milliseconds since the epoch. */
  nowMs(): number;
  /** Day number (see `population/calendar.ts`) for which answers are given. */
  today(): number;
  /** Moves the clock by days (fractions and negative ones too) from where it stands. */
  move(days: number): void;
  /** Days by which it was moved in all. */
  readonly movedDays: number;
  reset(): void;
}

/** Makes a clock that shows real time until it is moved. */
export function createWorldClock(): WorldClock {
  let movedDays = 0;
  const nowMs = () => Date.now() + movedDays * 86_400_000;
  return {
    nowMs,
    today: () => dayOf(nowMs()),
    move(days) {
      movedDays += days;
    },
    get movedDays() {
      return movedDays;
    },
    reset() {
      movedDays = 0;
    },
  };
}

/** How an endpoint writes instants (section 2.1): `Z`, an offset, or no zone at all. */
export type StampStyle = "z" | "offset" | "zoneless";
const ENDINGS = { z: "Z", offset: "+00:00", zoneless: "" } satisfies Record<StampStyle, string>;

/** ISO 8601 with six fractional digits; `microseconds` (0 to 999) are those below the millisecond. */
export function stampText(timeMs: number, microseconds: number, style: StampStyle): string {
  const iso = new Date(timeMs).toISOString();
  return iso.slice(0, 23) + String(microseconds).padStart(3, "0") + ENDINGS[style];
}
