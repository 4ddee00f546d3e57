import { comparableName } from "./names.ts";

/** 64 cities: `city|state|first three digits of its zip codes`, each zip once. */
const CITIES = `
New York|NY|100;Brooklyn|NY|112;Buffalo|NY|142;Rochester|NY|146;Albany|NY|122;Los Angeles|CA|900;San Diego|CA|921;San Jose|CA|951
San Francisco|CA|941;Fresno|CA|937;Sacramento|CA|958;La Cañada Flintridge|CA|910;Chicago|IL|606;Springfield|IL|627;Peoria|IL|616
Houston|TX|770;Dallas|TX|752;San Antonio|TX|782;Austin|TX|787;Fort Worth|TX|761;El Paso|TX|799;Phoenix|AZ|850;Tucson|AZ|857
Philadelphia|PA|191;Pittsburgh|PA|152;Erie|PA|165;Jacksonville|FL|322;Miami|FL|331;Tampa|FL|336;Columbus|OH|432;Cleveland|OH|441
Charlotte|NC|282;Raleigh|NC|276;Indianapolis|IN|462;Fort Wayne|IN|468;Seattle|WA|981;Spokane|WA|992;Denver|CO|802;Cañon City|CO|812
Washington|DC|200;Boston|MA|021;Springfield|MA|011;Nashville|TN|372;Memphis|TN|381;Detroit|MI|482;Sault Sainte Marie|MI|497
Portland|OR|972;Portland|ME|041;Las Vegas|NV|891;Louisville|KY|402;Baltimore|MD|212;Milwaukee|WI|532;Española|NM|876
Kansas City|MO|641;Saint Louis|MO|631;Kansas City|KS|661;Omaha|NE|681;Atlanta|GA|303;Richmond|VA|232;Minneapolis|MN|554
New Orleans|LA|701;Kāneʻohe|HI|967;Newark|NJ|071;Salt Lake City|UT|841
`;
const STREET_NAMES =
  "Maple,Oak,Cedar,Pine,Elm,Walnut,Chestnut,Birch,Hickory,Willow,Magnolia,Juniper,Sycamore,Poplar,Spruce,Laurel,Washington,Jefferson,Lincoln,Madison,Monroe,Jackson,Adams,Franklin,Grant,Harrison,Cleveland,Roosevelt,Wilson,Kennedy,Tyler,Polk,Main,High,Church,Mill,River,Lake,Hill,Park,Spring,Meadow,Sunset,Valley,Highland,Prospect,Railroad,Canyon,Second,Third,Fourth,Fifth,Sixth,Seventh,Eighth,Ninth,San José,Cañada,O'Farrell,Martin Luther King Jr,Peachtree,Vine,Canal,Liberty";
const HOUSE_NUMBERS = 2 ** 14;

export const cities = CITIES.trim()
  .split(/[;\n]/)
  .map((line) => {
    const [name = "", state = "", zip3 = ""] = line.split("|");
    return { name, state, zip3 };
  });

/** All 1,024 streets: direction, name, kind. */
export const streets: readonly string[] = STREET_NAMES.split(",").flatMap((name) =>
  ["", "N ", "E ", "W "].flatMap((direction) =>
    ["St", "Ave", "Rd", "Ln"].map((kind) => `${direction}${name} ${kind}`),
  ),
);

/** House number and street, and city of a number below 2 ** 30: a household is encoded in its address. */
export function placeAt(value: number) {
  const line = `${(value & (HOUSE_NUMBERS - 1)) + 1} ${streets[(value >>> 14) & 1023]}`;
  return { line, city: cities[(value >>> 24) & 63] ?? { name: "", state: "", zip3: "" } };
}

/** Kinds of streets in full, which addresses may be written with. */
const KINDS: Readonly<Record<string, string>> = { street: "st", avenue: "ave", road: "rd", lane: "ln" };

/** Normalizes a line of an address or a city for comparison. */
function comparable(text: string): string {
  const short = text.replace(
    /\b(street|avenue|road|lane)\b[.\s]*$/i,
    (_, kind: string) => KINDS[kind.toLowerCase()] ?? kind,
  );
  // Kāneʻohe is also written Kaneohe.
  return comparableName(short.replaceAll(/\p{Lm}/gu, ""));
}

const streetByText = new Map(streets.map((street, i) => [comparable(street), i]));
const cityByText = new Map(cities.map(({ name, state }, i) => [`${comparable(name)}|${state}`, i]));
const cityByZip = new Map(cities.map(({ zip3 }, i) => [zip3, i]));

/** Number of a written address (see {@link placeAt}); null if the street or the city is unknown. */
export function findPlace(line: string, city: string, state: string, zip: string): number | null {
  const [, number, rest = ""] = /^\s*(\d+)\s+(.*)$/.exec(line) ?? [];
  const house = Number(number ?? 0);
  const street = streetByText.get(comparable(rest));
  const found =
    cityByText.get(`${comparable(city)}|${state.trim().toUpperCase()}`) ??
    cityByZip.get(zip.trim().slice(0, 3));
  if (street === undefined || found === undefined || house < 1 || house > HOUSE_NUMBERS) return null;
  return house - 1 + (street + found * 1024) * HOUSE_NUMBERS;
}
