import { setTimeout as delay } from "node:timers/promises";

const DAY_MS = 86_400_000;

/** Noon (UTC) of the day on which the test file began, in milliseconds since the epoch. */
const NOON_MS = (Math.floor(Date.now() / DAY_MS) + 0.5) * DAY_MS;

/**
 * Days to move a sandbox's clock, so that all its answers are for the day on which the test file began. People change at
 * midnight (UTC), so answers of two days can't be compared.
 */
export function daysToNoon(): number {
  return (NOON_MS - Date.now()) / DAY_MS;
}

/** Timeout of a hook or test that calls {@link passMidnight}, without its own work. */
export const MIDNIGHT_TIMEOUT_MS = 400_000;

/** Waits for midnight (UTC) if it is near: a test across it would use the budgets of two days. */
export async function passMidnight(): Promise<void> {
  const leftMs = DAY_MS - (Date.now() % DAY_MS);
  if (leftMs < 5 * 60_000) await delay(leftMs + 1000);
}
