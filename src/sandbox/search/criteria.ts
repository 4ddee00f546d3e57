import type { Company } from "../population/companies.ts";
import { ladders } from "../population/companies.ts";
import { LEVELS } from "../population/education.ts";
import {
  ageOf,
  CHANNELS,
  educationOf,
  genderOf,
  homeOwnershipOf,
  incomeOf,
  isRetired,
  jobOf,
  type Person,
  stateOf,
  wealthOf,
} from "./facts.ts";

/** One condition of an audience. */
export interface Criterion {
  readonly kind: string;
  /** True if nobody meets two different ones of the kind, so that "and" between them lists alternatives. */
  readonly isExclusive: boolean;
  readonly isMet: (person: Person) => boolean;
}

/** Criteria by phrase, in the form of {@link phraseKey}. */
export type Lexicon = ReadonlyMap<string, Criterion>;

function singular(word: string): string {
  if (word.endsWith("ies") && word.length > 4) return `${word.slice(0, -3)}y`;
  return word.length > 3 && word.endsWith("s") && !word.endsWith("ss") ? word.slice(0, -1) : word;
}

/** Words as they are looked up: lower case, singular, without possessive. */
export function phraseKey(words: readonly string[]): string {
  return words.map((word) => singular(word.toLowerCase().replace(/['’]s?$/u, ""))).join(" ");
}

const keyOf = (phrase: string): string => phraseKey(phrase.split(" "));

/** `industry: other names` */
const INDUSTRY_NAMES = {
  "Hospital & Health Care": "healthcare,health care,hospital,hospitals",
  "Information Technology and Services": "information technology,it,tech,technology,software",
  Construction: "construction",
  Retail: "retail",
  Banking: "banking,bank,banks",
  "Higher Education": "higher education,university,universities,colleges",
  Restaurants: "restaurants",
  "Logistics and Supply Chain": "logistics,supply chain,trucking",
  "Law Practice": "law,legal,law firm,law firms",
  Accounting: "accounting",
};
const STATES =
  "AL Alabama,AK Alaska,AZ Arizona,AR Arkansas,CA California,CO Colorado,CT Connecticut,DE Delaware,DC District of Columbia,FL Florida,GA Georgia,HI Hawaii,ID Idaho,IL Illinois,IN Indiana,IA Iowa,KS Kansas,KY Kentucky,LA Louisiana,ME Maine,MD Maryland,MA Massachusetts,MI Michigan,MN Minnesota,MS Mississippi,MO Missouri,MT Montana,NE Nebraska,NV Nevada,NH New Hampshire,NJ New Jersey,NM New Mexico,NY New York,NC North Carolina,ND North Dakota,OH Ohio,OK Oklahoma,OR Oregon,PA Pennsylvania,RI Rhode Island,SC South Carolina,SD South Dakota,TN Tennessee,TX Texas,UT Utah,VT Vermont,VA Virginia,WA Washington,WV West Virginia,WI Wisconsin,WY Wyoming";
/** `level: its names` */
const EDUCATION_NAMES = {
  high_school: "high school,high school diploma",
  bachelors: "bachelor,bachelor degree",
  masters: "master,master degree",
  doctorate: "doctorate,doctoral degree,phd,ph.d,ph.d.",
};
const CHANNEL_NAMES = {
  personal_email: "personal email,personal email address",
  professional_email:
    "professional email,professional email address,work email,work email address,business email",
  email: "email,e-mail,email address",
  phone: "phone,phone number,telephone",
  mobile_phone: "mobile,mobile phone,mobile number,cell phone",
  linkedin: "linkedin,linkedin profile,linkedin url",
  address: "address,postal address,mailing address",
};
/** Names of roles that no standard title has. */
const ROLE_NAMES = { lawyer: "attorney", programmer: "software engineer" };

/** Standard titles by name of a role: the title as written, as standardized, and its last words ("nurse"). */
const roles = new Map<string, Set<string>>();
for (const { title, standard } of ladders.flat()) {
  if (standard === null) continue;
  const words = standard.split(" ");
  const preposition = words.indexOf("of");
  const names =
    preposition < 0 ? words.map((_, i) => words.slice(i).join(" ")) : [words.slice(0, preposition).join(" ")];
  for (const name of [title, standard, ...names]) {
    const key = keyOf(name);
    roles.set(key, (roles.get(key) ?? new Set()).add(standard));
  }
}
for (const [name, role] of Object.entries(ROLE_NAMES)) {
  const titles = roles.get(keyOf(role));
  if (titles) roles.set(keyOf(name), titles);
}

/** Standard titles that a name of a role covers; empty for none. */
export function titlesNamed(role: string): ReadonlySet<string> {
  return roles.get(keyOf(role)) ?? new Set();
}

const criterion = (kind: string, isMet: Criterion["isMet"], isExclusive = true): Criterion => ({
  kind,
  isExclusive,
  isMet,
});

function* namedCriteria(): Generator<readonly [string, Criterion]> {
  for (const [name, titles] of roles) {
    yield [name, criterion("role", (person) => titles.has(jobOf(person)?.standardTitle ?? ""))];
  }
  for (const [industry, names] of Object.entries(INDUSTRY_NAMES)) {
    const named = criterion("industry", (person) => jobOf(person)?.company.industry === industry);
    for (const name of [industry, ...names.split(",")]) yield [name, named];
  }
  for (const [code = "", ...words] of STATES.split(",").map((state) => state.split(" "))) {
    yield [words.join(" "), criterion("state", (person) => stateOf(person) === code)];
  }
  for (const [level, names] of Object.entries(EDUCATION_NAMES)) {
    // Not exclusive: people have several degrees.
    const named = criterion("education", (person) => educationOf(person).includes(level), false);
    for (const name of names.split(",")) yield [name, named];
  }
  for (const name of ["college degree", "college graduate"]) {
    const degrees = LEVELS.map((level) => level.name).filter((level) => level !== "high_school");
    yield [
      name,
      criterion("education", (person) => educationOf(person).some((l) => degrees.includes(l)), false),
    ];
  }
  // Its members are the keys of CHANNELS.
  for (const [channel, names] of Object.entries(CHANNEL_NAMES) as [keyof typeof CHANNELS, string][]) {
    for (const name of names.split(",")) yield [name, criterion("channel", CHANNELS[channel], false)];
  }
  for (const name of ["woman", "women", "female"]) {
    yield [name, criterion("gender", (person) => genderOf(person) === "Female")];
  }
  for (const name of ["man", "men", "male"]) {
    yield [name, criterion("gender", (person) => genderOf(person) === "Male")];
  }
  for (const name of ["homeowner", "home owner", "own their home", "own a home"]) {
    yield [name, criterion("home", (person) => homeOwnershipOf(person) === "Owned")];
  }
  for (const name of ["renter", "rent their home"]) {
    yield [name, criterion("home", (person) => homeOwnershipOf(person) === "Rented")];
  }
  yield ["retired", criterion("retired", isRetired)];
  yield ["retiree", criterion("retired", isRetired)];
}

/** Codes of states that are no English words, as written in upper case. */
export const stateCodes: ReadonlyMap<string, Criterion> = new Map(
  STATES.split(",")
    .map((state) => state.slice(0, 2))
    .filter((code) => !["IN", "OR", "ME", "OK", "HI"].includes(code))
    .map((code) => [code, criterion("state", (person) => stateOf(person) === code)]),
);

/** Makes the criteria of a population: its employers are those of its companies. */
export function createLexicon(companies: readonly Company[]): Lexicon {
  const employers = companies.map(
    ({ name }) =>
      [keyOf(name), criterion("employer", (person) => jobOf(person)?.company.name === name)] as const,
  );
  const named = [...namedCriteria()].map(([name, one]) => [keyOf(name), one] as const);
  // Later entries win.
  return new Map([...employers, ...named]);
}

/** Age from `min` to `max`, both inclusive; null for no bound. */
export function ageBetween(min: number | null, max: number | null): Criterion {
  const isMet = (person: Person) => {
    const age = ageOf(person);
    return age !== null && age >= (min ?? 0) && age <= (max ?? Number.POSITIVE_INFINITY);
  };
  return criterion("age", isMet, min !== null && max !== null);
}

/** Bounds of a label such as `$25,000-$49,999`: inclusive and exclusive. */
function boundsOf(label: string): readonly [number, number] {
  const [first = 0, second] = [...label.matchAll(/\d[\d,]*/g)].map(([digits]) =>
    Number(digits.replaceAll(",", "")),
  );
  if (label.startsWith("<")) return [0, first];
  return [first, second === undefined ? Number.POSITIVE_INFINITY : second + 1];
}

/** Income or wealth in dollars; met by ranges that lie between the bounds as a whole. Null for no bound. */
export function moneyBetween(kind: "income" | "wealth", min: number | null, max: number | null): Criterion {
  const read = kind === "income" ? incomeOf : wealthOf;
  const isMet = (person: Person) => {
    const label = read(person);
    if (label === null) return false;
    const [low, high] = boundsOf(label);
    return low >= (min ?? 0) && high <= (max === null ? Number.POSITIVE_INFINITY : max + 1);
  };
  return criterion(kind, isMet, min !== null && max !== null);
}
