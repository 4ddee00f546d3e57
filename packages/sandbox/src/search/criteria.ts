import { type Company, ladders } from "../population/companies.ts";
import { LEVELS } from "../population/education.ts";
import { CHANNELS, type Person, READERS } from "../population/person-fields.ts";

/** Current job; null if there is none. */
export function jobOf({ people, index, day }: Person) {
  return people.careers.currentJob(index, day);
}

/** State of the current address; null if unknown. */
export function stateOf({ people, index, day }: Person): string | null {
  return people.addresses.currentOf(index, day)?.state ?? null;
}

/** Known levels of education, newest first. */
export function educationOf({ people, index }: Person): readonly string[] {
  return people.education.levelsOf(index);
}

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
  "Hospital & Health Care": "healthcare,health care,hospital",
  "Information Technology and Services": "information technology,it,tech,technology,software",
  Construction: "construction",
  Retail: "retail",
  Banking: "banking,bank",
  "Higher Education": "higher education,university,colleges",
  Restaurants: "restaurants",
  "Logistics and Supply Chain": "logistics,supply chain,trucking",
  "Law Practice": "law,legal,law firm",
  Accounting: "accounting",
};
const STATES =
  "AL Alabama,AK Alaska,AZ Arizona,AR Arkansas,CA California,CO Colorado,CT Connecticut,DE Delaware,DC District of Columbia,FL Florida,GA Georgia,HI Hawaii,ID Idaho,IL Illinois,IN Indiana,IA Iowa,KS Kansas,KY Kentucky,LA Louisiana,ME Maine,MD Maryland,MA Massachusetts,MI Michigan,MN Minnesota,MS Mississippi,MO Missouri,MT Montana,NE Nebraska,NV Nevada,NH New Hampshire,NJ New Jersey,NM New Mexico,NY New York,NC North Carolina,ND North Dakota,OH Ohio,OK Oklahoma,OR Oregon,PA Pennsylvania,RI Rhode Island,SC South Carolina,SD South Dakota,TN Tennessee,TX Texas,UT Utah,VT Vermont,VA Virginia,WA Washington,WV West Virginia,WI Wisconsin,WY Wyoming"
    .split(",")
    .map((state) => ({ code: state.slice(0, 2), name: state.slice(3) }));
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
} satisfies Record<keyof typeof CHANNELS, string>;
/** Names of a value of a field. */
const TRAITS = [
  ["woman,women,female", "gender", "Female"],
  ["man,men,male", "gender", "Male"],
  ["homeowner,home owner,own their home,own a home", "home_ownership_status", "Owned"],
  ["renter,rent their home", "home_ownership_status", "Rented"],
  ["retired,retiree", "is_retired", true],
] as const;
/** Names of roles that no standard title has. */
const ROLE_NAMES = { lawyer: "attorney", programmer: "software engineer" };

/** Standard titles by name of a role: the title as written, as standardized, and its last words ("nurse"). */
const roles = new Map<string, Set<string>>();
for (const { work_title: title, standard_work_title: standard } of ladders.flat()) {
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
for (const [name, role] of Object.entries(ROLE_NAMES)) roles.set(name, roles.get(role) ?? new Set());

/** Standard titles that a name of a role covers; empty for none. */
export function titlesNamed(role: string): ReadonlySet<string> {
  return roles.get(keyOf(role)) ?? new Set();
}

const criterion = (kind: string, isMet: Criterion["isMet"], isExclusive = true): Criterion => ({
  kind,
  isExclusive,
  isMet,
});
const inState = (code: string) => criterion("state", (person) => stateOf(person) === code);
// Not exclusive: people have several degrees.
const hasDegree = (degrees: readonly string[]) =>
  criterion("education", (person) => educationOf(person).some((level) => degrees.includes(level)), false);

function* namedCriteria(): Generator<readonly [names: readonly string[], Criterion]> {
  for (const [name, titles] of roles) {
    yield [[name], criterion("role", (person) => titles.has(jobOf(person)?.standard_work_title ?? ""))];
  }
  for (const [industry, names] of Object.entries(INDUSTRY_NAMES)) {
    const isMet = (person: Person) => jobOf(person)?.company.industry === industry;
    yield [[industry, ...names.split(",")], criterion("industry", isMet)];
  }
  for (const { code, name } of STATES) yield [[name], inState(code)];
  for (const [level, names] of Object.entries(EDUCATION_NAMES)) yield [names.split(","), hasDegree([level])];
  const degrees = LEVELS.map(({ name }) => name).filter((name) => name !== "high_school");
  yield [["college degree", "college graduate"], hasDegree(degrees)];
  for (const [channel, isReached] of Object.entries(CHANNELS)) {
    // Both tables have the same keys.
    yield [
      CHANNEL_NAMES[channel as keyof typeof CHANNELS].split(","),
      criterion("channel", isReached, false),
    ];
  }
  for (const [names, field, value] of TRAITS) {
    yield [names.split(","), criterion(field, (person) => READERS[field](person) === value)];
  }
}

/** Codes of states that are no English words, as written in upper case. */
export const stateCodes: Lexicon = new Map(
  STATES.filter(({ code }) => !["IN", "OR", "ME", "OK", "HI"].includes(code)).map(({ code }) => [
    code,
    inState(code),
  ]),
);

/** Makes the criteria of a population: its employers are those of its companies. */
export function createLexicon(companies: readonly Company[]): Lexicon {
  const employers = companies.map(
    ({ members: { work_company_name: name } }) =>
      [
        keyOf(name),
        criterion("employer", (person) => jobOf(person)?.company.members.work_company_name === name),
      ] as const,
  );
  const named = [...namedCriteria()].flatMap(([names, one]) =>
    names.map((name) => [keyOf(name), one] as const),
  );
  // Later entries win.
  return new Map([...employers, ...named]);
}

/** Bounds of a label such as `$25,000-$49,999`: inclusive and exclusive. */
function boundsOf(label: string): readonly [number, number] {
  const amounts = label.match(/\d[\d,]*/g) ?? [];
  const [first = 0, second] = amounts.map((digits) => Number(digits.replaceAll(",", "")));
  if (label.startsWith("<")) return [0, first];
  return [first, second === undefined ? Number.POSITIVE_INFINITY : second + 1];
}

/** Age, income or wealth between bounds, both inclusive; a range of money has to lie between them as a whole. Null for no bound. */
export function between(
  kind: "age" | "income" | "wealth",
  min: number | null,
  max: number | null,
): Criterion {
  const rangeOf = (person: Person): readonly [number, number] | null => {
    if (kind === "age") {
      const age = READERS.age(person);
      return age === null ? null : [age, age + 1];
    }
    const label = READERS[`estimated_${kind}_range`](person);
    return label === null ? null : boundsOf(label);
  };
  const isMet = (person: Person) => {
    const range = rangeOf(person);
    const end = max === null ? Number.POSITIVE_INFINITY : max + 1;
    return range !== null && range[0] >= (min ?? 0) && range[1] <= end;
  };
  return criterion(kind, isMet, min !== null && max !== null);
}
