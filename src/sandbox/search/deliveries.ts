import type { Refusal } from "../http/outcome.ts";
import { type Capacity, checkRecords } from "../capacity.ts";

/** People delivered to an organization in a billing year, by index. */
interface DeliveredYear {
  readonly organization: string;
  readonly year: number;
  readonly indexes: Set<number>;
}

/** People that organizations have paid for. */
export interface Deliveries {
  /** Charges for those not delivered yet in the calendar year; returns their number, or 402 if the capacity can't cover them. */
  charge(organization: string, nowMs: number, indexes: readonly number[]): number | Refusal;
  all(): readonly DeliveredYear[];
  restore(years: readonly { organization: string; year: number; indexes: readonly number[] }[]): void;
  reset(): void;
}

/** Makes deliveries that use a capacity. */
export function createDeliveries(capacity: Capacity): Deliveries {
  const years = new Map<string, DeliveredYear>();
  const yearOf = (organization: string, year: number): DeliveredYear => {
    const key = JSON.stringify([organization, year]);
    const known = years.get(key) ?? { organization, year, indexes: new Set() };
    years.set(key, known);
    return known;
  };
  return {
    charge(organization, nowMs, indexes) {
      const delivered = yearOf(organization, new Date(nowMs).getUTCFullYear()).indexes;
      const added = new Set(indexes.filter((index) => !delivered.has(index)));
      const refusal = checkRecords(capacity, added.size);
      if (refusal) return refusal;
      if (capacity.recordsLeft !== null) capacity.recordsLeft -= added.size;
      for (const index of added) delivered.add(index);
      return added.size;
    },
    all: () => [...years.values()],
    restore(kept) {
      for (const { organization, year, indexes } of kept) {
        const known = yearOf(organization, year).indexes;
        for (const index of indexes) known.add(index);
      }
    },
    reset: () => years.clear(),
  };
}
