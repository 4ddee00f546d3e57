import { BASE_DAY, dayText, keepLast, occurrences } from "./calendar.ts";
import type { Families } from "./family.ts";
import { type HashKey, below, chance, hash, STREAM } from "./hash.ts";
import { type Identifiers, SLOTS } from "./identifiers.ts";
import { findPlace, placeAt } from "./places.ts";

/** Time of a household at one of its {@link SLOTS} addresses; `toDay` is null while they live there. */
type Stay = { readonly slot: number; readonly fromDay: number; readonly toDay: number | null };

/** Average days between two moves: about 1 % of the households in a month. */
const MOVE_EVERY_DAYS = 3000;

export function createAddresses(key: HashKey, people: number, identifiers: Identifiers, families: Families) {
  const ask = (household: number, slot: number, question: number) =>
    hash(key, household, STREAM.address + slot * 32 + question);

  const staysOf = keepLast((household: number, day: number): readonly Stay[] => {
    const moves = occurrences(key, household, STREAM.moves, MOVE_EVERY_DAYS, day);
    const atStart = 2 + below(hash(key, household, STREAM.person), 5);
    const stays: Stay[] = [];
    let toDay: number | null = null;
    // The oldest slot stays free: it is the same as the newest one's.
    for (let i = atStart + moves.length - 1; i >= 0 && stays.length < SLOTS - 1; i--) {
      const slot = i % SLOTS;
      const before: number =
        Math.min(toDay ?? BASE_DAY, BASE_DAY) - 200 - below(ask(household, slot, 0), 6 * 365);
      const fromDay: number = moves[i - atStart] ?? before;
      stays.push({ slot, fromDay, toDay });
      toDay = fromDay;
    }
    return stays;
  });
  const knownStays = (index: number, day: number): readonly Stay[] => {
    const bits = hash(key, index, STREAM.person + 1);
    if (chance(bits, 0.03)) return [];
    return staysOf(families.householdOf(index), day).slice(0, 2 + below(bits, 5));
  };
  const written = (household: number, slot: number) => {
    const { line, city } = placeAt(identifiers.hide("address", household, slot));
    const unit = ask(household, slot, 1);
    return {
      line1: line,
      line2: chance(unit, 0.2) ? `${unit & 1 ? "Apt" : "Unit"} ${1 + (unit % 60)}` : null,
      city: city.name,
      state: city.state,
      zip: city.zip3 + String(ask(household, slot, 2) % 100).padStart(2, "0"),
    };
  };
  const isOwned = (household: number, slot: number) => chance(ask(household, slot, 3), 0.62);

  /** Members from `purchase_date` to `current_property_equity_amount`. */
  const moneyOf = (household: number, { slot, fromDay }: Stay) => {
    const bits = ask(household, slot, 4);
    // One home in 4,000 costs more than 2 ** 31 dollars: no reader may assume 32 bits.
    const isHuge = chance(ask(household, slot, 5), 1 / 4000);
    const price = isHuge ? 2_400_000_000 + bits : 60_000 + below(bits, 900_000);
    const value = Math.round(price * (80 + below(ask(household, slot, 6), 120))) / 100;
    const isOwner = isOwned(household, slot);
    const hasLoan = !chance(ask(household, slot, 7), 0.3);
    const loan = hasLoan ? Math.round(price * below(ask(household, slot, 8), 9000)) / 10_000 : 0;
    return {
      purchase_date: isOwner ? dayText(fromDay - below(bits, 60)) : null,
      purchase_price: isOwner ? price : null,
      estimated_current_value: isOwner || chance(bits, 0.4) ? value : null,
      estimated_rental_value: Math.round(Math.min(value, 2_000_000) * 0.52) / 100,
      home_current_tax_liability: isOwner ? Math.round(value * 1.17) / 100 : null,
      outstanding_loan_principal: isOwner ? loan : null,
      current_property_equity_amount: isOwner ? Math.round((value - loan) * 100) / 100 : null,
    };
  };

  const addressOf = (household: number, stay: Stay, rank: number) => {
    const { slot, fromDay, toDay } = stay;
    const { line1, line2, city, state, zip } = written(household, slot);
    const bits = ask(household, slot, 9);
    const size = ask(household, slot, 11);
    const isKnown = (question: number, share: number) => chance(ask(household, slot, question), share);
    const isOwner = isOwned(household, slot);
    const isStated = !chance(bits, 0.12);
    return {
      address_rank: rank,
      service_address_id: identifiers.opaqueId("a-", STREAM.addressId, household, slot),
      address_line_1: line1,
      address_line_2: line2,
      address_city: city,
      address_state: state,
      address_zipcode: zip,
      address_zipcode4: isKnown(10, 0.7) ? String(1000 + (bits % 9000)) : null,
      ownership_status: isStated ? (isOwner ? "owned" : "rented") : null,
      is_current_owner: isStated ? isOwner && toDay === null : null,
      ...moneyOf(household, stay),
      sqft: chance(size, 0.1) ? null : 600 + (size % 3400) + (chance(size, 0.13) ? 0.5 : 0),
      num_beds: isKnown(12, 0.85) ? 1 + (size % 6) : null,
      num_baths: isKnown(13, 0.85) ? 1 + (bits % 7) / 2 : null,
      first_seen_date: dayText(fromDay),
      last_seen_date: toDay === null ? null : dayText(toDay),
    };
  };

  return {
    staysOf,
    written,
    isOwned,
    /** First address of {@link history}; null if a person has none. */
    currentOf(index: number, day: number) {
      const [stay] = knownStays(index, day);
      return stay ? written(families.householdOf(index), stay.slot) : null;
    },
    /** `address_history`. */
    history(index: number, day: number) {
      const household = families.householdOf(index);
      let rank = 0;
      return knownStays(index, day).map((stay) => {
        // A few addresses share the rank of the one before.
        if (rank === 0 || !chance(ask(household, stay.slot, 14), 0.04)) rank += 1;
        return addressOf(household, stay, rank);
      });
    },
    /** Present or former household of an address, or null. */
    householdAt(line: string, city: string, state: string, zip: string): number | null {
      const place = findPlace(line, city, state, zip);
      if (place === null) return null;
      const { index: household, slot } = identifiers.reveal("address", place);
      const isReal =
        household < people &&
        families.householdOf(household) === household &&
        (zip === "" || written(household, slot).zip === zip.trim().slice(0, 5));
      return isReal ? household : null;
    },
  };
}
