/** A city of the population. */
export interface City {
  readonly name: string;
  readonly state: string;
  readonly zip3: string;
}

/** House number, street and city of an address. Together they encode a household, so all sizes are powers of two. */
export interface Place {
  /** 1 to {@link HOUSE_NUMBERS}. */
  readonly houseNumber: number;
  /** Index in {@link streets}. */
  readonly street: number;
  /** Index in {@link cities}. */
  readonly city: number;
}

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
/** 64 street names. */
const STREET_NAMES =
  "Maple,Oak,Cedar,Pine,Elm,Walnut,Chestnut,Birch,Hickory,Willow,Magnolia,Juniper,Sycamore,Poplar,Spruce,Laurel,Washington,Jefferson,Lincoln,Madison,Monroe,Jackson,Adams,Franklin,Grant,Harrison,Cleveland,Roosevelt,Wilson,Kennedy,Tyler,Polk,Main,High,Church,Mill,River,Lake,Hill,Park,Spring,Meadow,Sunset,Valley,Highland,Prospect,Railroad,Canyon,Second,Third,Fourth,Fifth,Sixth,Seventh,Eighth,Ninth,San José,Cañada,O'Farrell,Martin Luther King Jr,Peachtree,Vine,Canal,Liberty";
const DIRECTIONS = ["", "N ", "E ", "W "];
/** Kinds of streets as written, and as spelled out by others. */
const STREET_KINDS = new Map([
  ["St", "street"],
  ["Ave", "avenue"],
  ["Rd", "road"],
  ["Ln", "lane"],
]);
const HOUSE_NUMBERS = 2 ** 14;

/** All cities. */
export const cities: readonly City[] = CITIES.trim()
  .split(/[;\n]/)
  .map((line) => {
    const [name = "", state = "", zip3 = ""] = line.split("|");
    return { name, state, zip3 };
  });

/** All 1,024 streets as written: direction, name, kind. */
export const streets: readonly string[] = STREET_NAMES.split(",").flatMap((name) =>
  DIRECTIONS.flatMap((direction) => [...STREET_KINDS.keys()].map((kind) => `${direction}${name} ${kind}`)),
);

/** Decodes a number below 2 ** 30. */
export function placeAt(value: number): Place {
  return {
    houseNumber: (value & (HOUSE_NUMBERS - 1)) + 1,
    street: (value >>> 14) & 1023,
    city: (value >>> 24) & 63,
  };
}

/** Encodes a place. */
export function numberOfPlace({ houseNumber, street, city }: Place): number {
  return houseNumber - 1 + (street + city * 1024) * HOUSE_NUMBERS;
}

const kindsInFull = new Map([...STREET_KINDS].map(([short, full]) => [full, short.toLowerCase()]));

/** Normalizes an address for comparison: lower case, no accents or punctuation, short street kinds. */
function comparable(text: string): string {
  const plain = text
    .normalize("NFKD")
    .toLowerCase()
    .replace(/[^a-z0-9 ]/g, "");
  const words = plain.split(/ +/).filter((word) => word !== "");
  return words.map((word) => kindsInFull.get(word) ?? word).join(" ");
}

const streetByText = new Map(streets.map((street, i) => [comparable(street), i]));
const cityByText = new Map(cities.map(({ name, state }, i) => [`${comparable(name)}|${state}`, i]));
const cityByZip = new Map(cities.map(({ zip3 }, i) => [zip3, i]));

/** Finds the place of a written address; null if the street or the city is unknown. */
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
