import { BASE_DAY, dayText, occurrences } from "./calendar.ts";
import type { Families } from "./family.ts";
import { type HashKey, below, chance, hash } from "./hash.ts";
import { type Identifiers, SLOTS } from "./identifiers.ts";
import { cities, findPlace, numberOfPlace, placeAt, streets } from "./places.ts";
import { STREAM } from "./streams.ts";

/** A household at one address for a time. */
export interface Stay {
  /** Which of the household's {@link SLOTS} addresses. */
  readonly slot: number;
  readonly fromDay: number;
  /** Null while they live there. */
  readonly toDay: number | null;
}

/** An address as it is written. */
export interface WrittenAddress {
  readonly line1: string;
  readonly line2: string | null;
  readonly city: string;
  readonly state: string;
  readonly zip: string;
}

/** Where households live and lived. */
export interface Addresses {
  /** Newest first, at least one. */
  staysOf(household: number, day: number): readonly Stay[];
  written(household: number, slot: number): WrittenAddress;
  /** Owned rather than rented. */
  isOwned(household: number, slot: number): boolean;
  /** JSON text of a person's `address_history`. */
  historyText(index: number, household: number, day: number): string;
  /** The household that lives or lived at an address, or null. */
  householdAt(line: string, city: string, state: string, zip: string): number | null;
}

/** Average days between two moves: about 1 % of the households move in a month. */
const MOVE_EVERY_DAYS = 3000;
const YEAR = 365;

/** The addresses of a population of `people`. */
export function createAddresses(
  key: HashKey,
  people: number,
  identifiers: Identifiers,
  families: Families,
): Addresses {
  const ask = (household: number, slot: number, question: number) =>
    hash(key, household, STREAM.address + slot * 32 + question);

  const staysOf = (household: number, day: number): readonly Stay[] => {
    const moves = occurrences(key, household, STREAM.moves, MOVE_EVERY_DAYS, day);
    const atStart = 2 + below(hash(key, household, STREAM.person), 5);
    const stays: Stay[] = [];
    let toDay: number | null = null;
    for (let i = atStart + moves.length - 1; i >= 0; i--) {
      const slot = i % SLOTS;
      // Before the base day: each stay some years long, counted back from the one after it.
      const fromDay: number =
        moves[i - atStart] ??
        Math.min(toDay ?? BASE_DAY, BASE_DAY) - 200 - below(ask(household, slot, 0), 6 * YEAR);
      stays.push({ slot, fromDay, toDay });
      if (stays.length === SLOTS - 1) break; // an older one would share its slot with the newest
      toDay = fromDay;
    }
    return stays;
  };

  const written = (household: number, slot: number): WrittenAddress => {
    const place = placeAt(identifiers.hide("address", household, slot));
    const city = cities[place.city];
    if (!city) throw new Error("A place always has a city.");
    const unit = ask(household, slot, 1);
    return {
      line1: `${place.houseNumber} ${streets[place.street]}`,
      line2: chance(unit, 0.2)
        ? `${unit & 1 ? "Apt" : "Unit"} ${1 + (unit % 60)}${unit & 2 ? "B" : ""}`
        : null,
      city: city.name,
      state: city.state,
      zip: city.zip3 + String(ask(household, slot, 2) % 100).padStart(2, "0"),
    };
  };
  const isOwned = (household: number, slot: number) => chance(ask(household, slot, 3), 0.62);

  /** Owner's money fields, from `purchase_date` to `current_property_equity_amount`. */
  const moneyText = (household: number, stay: Stay): string => {
    const { slot } = stay;
    const bits = ask(household, slot, 4);
    // One home in 4,000 costs more than 2 ** 31 dollars, so that no reader takes 32 bits for granted.
    const price = chance(ask(household, slot, 5), 1 / 4000)
      ? 2_400_000_000 + bits
      : 60_000 + below(bits, 900_000);
    const value = Math.round(price * (0.8 + below(ask(household, slot, 6), 120) / 100) * 100) / 100;
    const rent = Math.round(Math.min(value, 2_000_000) * 0.52) / 100;
    if (!isOwned(household, slot)) {
      const known = chance(bits, 0.4) ? String(value) : "null";
      return `,"purchase_date":null,"purchase_price":null,"estimated_current_value":${known},"estimated_rental_value":${rent},"home_current_tax_liability":null,"outstanding_loan_principal":null,"current_property_equity_amount":null`;
    }
    const loan = chance(ask(household, slot, 7), 0.3)
      ? 0
      : Math.round(price * below(ask(household, slot, 8), 9000)) / 10_000;
    const equity = Math.round((value - loan) * 100) / 100;
    const tax = Math.round(value * 1.17) / 100;
    const bought = dayText(stay.fromDay - below(bits, 60));
    return `,"purchase_date":"${bought}","purchase_price":${price},"estimated_current_value":${value},"estimated_rental_value":${rent},"home_current_tax_liability":${tax},"outstanding_loan_principal":${loan},"current_property_equity_amount":${equity}`;
  };

  const stayText = (household: number, stay: Stay, rank: number): string => {
    const { slot } = stay;
    const address = written(household, slot);
    const bits = ask(household, slot, 9);
    const owned = isOwned(household, slot);
    const ownership = chance(bits, 0.12) ? "null" : owned ? '"owned"' : '"rented"';
    const owner = ownership === "null" ? "null" : String(owned && stay.toDay === null);
    const line2 = address.line2 === null ? "null" : `"${address.line2}"`;
    const zip4 = chance(ask(household, slot, 10), 0.3) ? "null" : `"${1000 + (bits % 9000)}"`;
    const size = ask(household, slot, 11);
    const sqft = chance(size, 0.1)
      ? "null"
      : String(chance(size, 0.13) ? 900.5 + (size % 2000) : 600 + (size % 3400));
    const beds = chance(ask(household, slot, 12), 0.15) ? "null" : String(1 + (size % 6));
    const baths = chance(ask(household, slot, 13), 0.15) ? "null" : String(1 + (bits % 7) / 2);
    const seen = stay.toDay === null ? "null" : `"${dayText(stay.toDay)}"`;
    return `{"address_rank":${rank},"service_address_id":"${identifiers.opaqueId("a-", STREAM.addressId, household, slot)}","address_line_1":"${address.line1}","address_line_2":${line2},"address_city":"${address.city}","address_state":"${address.state}","address_zipcode":"${address.zip}","address_zipcode4":${zip4},"ownership_status":${ownership},"is_current_owner":${owner}${moneyText(household, stay)},"sqft":${sqft},"num_beds":${beds},"num_baths":${baths},"first_seen_date":"${dayText(stay.fromDay)}","last_seen_date":${seen}}`;
  };

  return {
    staysOf,
    written,
    isOwned,
    historyText(index, household, day) {
      const bits = hash(key, index, STREAM.person + 1);
      if (chance(bits, 0.03)) return "[]";
      const known = 2 + below(bits, 5);
      let text = "[";
      let rank = 0;
      let count = 0;
      for (const stay of staysOf(household, day)) {
        if (count === known) break;
        if (count === 0 || !chance(ask(household, stay.slot, 14), 0.04)) rank += 1; // else an equal rank
        text += (count === 0 ? "" : ",") + stayText(household, stay, rank);
        count += 1;
      }
      return `${text}]`;
    },
    householdAt(line, city, state, zip) {
      const place = findPlace(line, city, state, zip);
      if (!place) return null;
      const { index: household, slot } = identifiers.reveal("address", numberOfPlace(place));
      const real =
        household < people &&
        families.householdOf(household) === household &&
        (zip === "" || written(household, slot).zip === zip.trim().slice(0, 5));
      return real ? household : null;
    },
  };
}
