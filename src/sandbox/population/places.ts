import { CITIES, DIRECTIONS, STREET_KINDS, STREET_NAMES } from "./places-data.ts";

/** A city of the population. */
export interface City {
  readonly name: string;
  readonly state: string;
  readonly zip3: string;
  readonly areaCode: string;
}

/** Where an address line and a city lead: numbers that, put together, hide a household. */
export interface Place {
  /** 1 to 8,192. */
  readonly houseNumber: number;
  /** Index in the 1,024 streets. */
  readonly street: number;
  /** Index in {@link cities}. */
  readonly city: number;
}

/** The 128 cities. */
export const cities: readonly City[] = CITIES.map((line) => {
  const [name = "", state = "", zip3 = "", areaCode = ""] = line.split("|");
  return { name, state, zip3, areaCode };
});

/** The 1,024 streets as written: direction, name, kind. */
export const streets: readonly string[] = STREET_NAMES.flatMap((name) =>
  DIRECTIONS.flatMap((direction) => STREET_KINDS.map(([kind]) => `${direction}${name} ${kind}`)),
);

const HOUSE_NUMBERS = 8192;

/** The place behind a number below 2 ** 30. */
export function placeAt(value: number): Place {
  return {
    houseNumber: (value & (HOUSE_NUMBERS - 1)) + 1,
    street: (value >>> 13) & 1023,
    city: (value >>> 23) & 127,
  };
}

/** The number behind a place. */
export function numberOfPlace(place: Place): number {
  return place.houseNumber - 1 + place.street * HOUSE_NUMBERS + place.city * HOUSE_NUMBERS * 1024;
}

/** Address text reduced to what counts: lower case, no accents or punctuation, street kinds shortened. */
function comparable(text: string): string {
  const words = text
    .normalize("NFKD")
    .toLowerCase()
    .replace(/[^a-z0-9 ]/g, "")
    .split(/ +/)
    .filter((word) => word !== "");
  return words.map((word) => KINDS_IN_FULL.get(word) ?? word).join(" ");
}

const KINDS_IN_FULL: ReadonlyMap<string, string> = new Map(
  STREET_KINDS.map(([short, full]) => [full, short.toLowerCase()]),
);
const streetByText = new Map(streets.map((street, i) => [comparable(street), i]));
const cityByText = new Map(cities.map((city, i) => [`${comparable(city.name)}|${city.state}`, i]));
const cityByZip = new Map(cities.map((city, i) => [city.zip3, i]));

/** Finds the place of an address as somebody wrote it; null when the street or the city isn't one of ours. */
export function findPlace(line: string, city: string, state: string, zip: string): Place | null {
  const [number = "", ...words] = comparable(line).split(" ");
  const houseNumber = Number(number);
  const street = streetByText.get(words.join(" "));
  const found =
    cityByText.get(`${comparable(city)}|${state.trim().toUpperCase()}`) ??
    cityByZip.get(zip.trim().slice(0, 3));
  if (street === undefined || found === undefined) return null;
  if (!Number.isInteger(houseNumber) || houseNumber < 1 || houseNumber > HOUSE_NUMBERS) return null;
  return { houseNumber, street, city: found };
}
