import { BASE_DAY, DAY_MS } from "./population/calendar.ts";
import { chance, below, hash, hashKey, pick, STREAM } from "./population/hash.ts";
import { originOf } from "./population/names.ts";
import { createPeople } from "./population/people.ts";
import { shuffleBelow } from "./population/identifiers.ts";
import { cities, streets } from "./population/places.ts";

const FIELDS = [
  ...(["first_name", "last_name", "email", "work_email", "phone", "linkedin"] as const),
  ...(["street", "city", "state", "zip"] as const),
];
/** Values can be null, blank or badly written. */
type Content = Readonly<Record<(typeof FIELDS)[number], string | null>>;

/** A row of a customer's CRM. */
export interface SampleInput extends Content {
  readonly id: number;
  /** ISO 8601, UTC. */
  readonly updated_at: string;
}

/** Shares of the rows: equal to an earlier row; empty; only a name; a person outside the population. */
const SHARES = { duplicate: 0.012, empty: 0.006, nameOnly: 0.012, stranger: 0.13 };
/** Maximum distance of a duplicate to the row that it repeats. */
const DUPLICATE_REACH = 40;
// The list names every field.
const NOTHING = Object.fromEntries(FIELDS.map((field) => [field, null])) as Content;

/**
 * Rows of a customer table as dirty as real ones; the sandbox of the same seed and population matches about 85 %. A pure
 * function of seed, population size and row.
 */
export function* sampleInputs(options: {
  readonly seed: number;
  readonly people: number;
  readonly rows: number;
}): Generator<SampleInput> {
  const key = hashKey(options.seed);
  const people = createPeople(options.seed, options.people);
  // Every person appears once before anyone appears twice.
  const shuffled = shuffleBelow(key, options.people, STREAM.sample);
  const ask = (row: number, question: number) => hash(key, row, STREAM.sample + question);
  const has = (row: number, question: number, share: number) => chance(ask(row, question), share);

  /** Writes a value as if typed by hand: sometimes in another case, or with spaces around it. */
  const typed = (row: number, question: number, value: string): string => {
    if (has(row, question, 0.03)) return value.toUpperCase();
    if (has(row, question, 0.05)) return value.toLowerCase();
    return has(row, question, 0.06) ? ` ${value} ` : value;
  };
  const typedPhone = (row: number, number: string): string => {
    const [area, exchange, line] = [number.slice(2, 5), number.slice(5, 8), number.slice(8)];
    const forms = [number, `(${area}) ${exchange}-${line}`, `${area}-${exchange}-${line}`];
    return pick([...forms, `+1 ${area} ${exchange} ${line}`], ask(row, 19));
  };
  const aboutPerson = (row: number): Content => {
    const index = shuffled(row % options.people);
    const { first, last } = people.nameOf(index);
    const household = people.families.householdOf(index);
    const stay = pick(people.addresses.staysOf(household, BASE_DAY).slice(0, 2), ask(row, 10));
    const address = has(row, 11, 0.8) ? people.addresses.written(household, stay.slot) : null;
    const [email] = people.contacts.personalEmails(index);
    const [workEmail] = people.contacts.professionalEmails(index, BASE_DAY);
    const [phone] = people.contacts.phones(index);
    return {
      first_name: typed(row, 12, first),
      last_name: typed(row, 13, last),
      email: email !== undefined && has(row, 14, 0.93) ? typed(row, 15, email) : null,
      work_email: workEmail !== undefined && has(row, 16, 0.6) ? typed(row, 17, workEmail) : null,
      phone: phone && has(row, 18, 0.75) ? typedPhone(row, phone.number) : null,
      linkedin: has(row, 20, 0.3) ? people.contacts.linkedinUrl(index) : null,
      street: address && typed(row, 21, address.line1),
      city: address && typed(row, 22, address.city),
      state: address && address.state,
      zip: address && has(row, 23, 0.95) ? address.zip : null,
    };
  };
  const aboutStranger = (row: number): Content => {
    const names = originOf(ask(row, 24));
    const first = pick([...names.men, ...names.women], ask(row, 25));
    const last = pick(names.last, ask(row, 27));
    const bits = ask(row, 28);
    const city = pick(cities, bits);
    return {
      ...NOTHING,
      first_name: first.text,
      last_name: last.text,
      email: `${first.slug}${last.slug}${bits % 1000}@elsewhere.example`,
      // No area code of the population.
      phone: chance(bits, 0.7) ? `+190055501${10 + (bits % 90)}` : null,
      street: `${50_000 + (bits % 900)} ${pick(streets, ask(row, 29))}`,
      city: city.name,
      state: city.state,
      zip: `${city.zip3}${10 + (bits % 90)}`,
    };
  };
  const isDuplicate = (row: number) => row > 0 && has(row, 0, SHARES.duplicate);
  const contentOf = (row: number): Content => {
    if (isDuplicate(row)) {
      let earlier = Math.max(0, row - 1 - below(ask(row, 1), DUPLICATE_REACH));
      while (isDuplicate(earlier)) earlier -= 1;
      return contentOf(earlier);
    }
    const isEmpty = has(row, 2, SHARES.empty);
    const isStranger = has(row, 2, SHARES.empty + SHARES.stranger);
    const content = isEmpty ? NOTHING : isStranger ? aboutStranger(row) : aboutPerson(row);
    if (!isStranger && has(row, 3, SHARES.nameOnly)) {
      return { ...NOTHING, first_name: content.first_name, last_name: content.last_name };
    }
    if (!has(row, 30, 0.05)) return content;
    // Forms leave blanks instead of null.
    const blank = has(row, 31, 0.5) ? "" : "   ";
    const { work_email, phone, linkedin } = content;
    return {
      ...content,
      work_email: work_email ?? blank,
      phone: phone ?? blank,
      linkedin: linkedin ?? blank,
    };
  };

  for (let row = 0; row < options.rows; row++) {
    const updatedMs = (BASE_DAY - below(ask(row, 32), 700)) * DAY_MS - below(ask(row, 33), DAY_MS);
    yield { id: row + 1, ...contentOf(row), updated_at: new Date(updatedMs).toISOString() };
  }
}
