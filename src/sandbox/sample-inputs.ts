import { BASE_DAY } from "./population/calendar.ts";
import { chance, below, hash, type HashKey, hashKey, pick } from "./population/hash.ts";
import { originOf } from "./population/names.ts";
import { createPeople, type People } from "./population/people.ts";
import { shuffleBelow } from "./population/permutation.ts";
import { cities, streets } from "./population/places.ts";
import { STREAM } from "./population/streams.ts";

/** A row as a customer's CRM holds it; the text fields can be null, blank or badly written. */
export interface SampleInput {
  readonly id: number;
  readonly first_name: string | null;
  readonly last_name: string | null;
  readonly email: string | null;
  readonly work_email: string | null;
  readonly phone: string | null;
  readonly linkedin: string | null;
  readonly street: string | null;
  readonly city: string | null;
  readonly state: string | null;
  readonly zip: string | null;
  /** ISO 8601, UTC. */
  readonly updated_at: string;
}

type Content = Omit<SampleInput, "id" | "updated_at">;

/** Shares of the rows: equal to an earlier row; nothing filled in; a name alone; nobody of the population. */
const SHARES = { duplicate: 0.012, empty: 0.006, nameOnly: 0.012, stranger: 0.13 };
/** How far back the row that a duplicate repeats can lie. */
const DUPLICATE_REACH = 40;
const NOTHING: Content = {
  first_name: null,
  last_name: null,
  email: null,
  work_email: null,
  phone: null,
  linkedin: null,
  street: null,
  city: null,
  state: null,
  zip: null,
};

interface Source {
  readonly key: HashKey;
  readonly people: People;
  /** Which person of the population a row is about: all of them once before anybody comes twice. */
  readonly personOf: (row: number) => number;
}

const ask = ({ key }: Source, row: number, question: number) => hash(key, row, STREAM.sample + question);

/** A value as somebody typed it: now and then in capitals, or with spaces around it. */
function typed(source: Source, row: number, question: number, value: string): string {
  const bits = ask(source, row, question);
  if (chance(bits, 0.03)) return value.toUpperCase();
  if (chance(bits, 0.05)) return value.toLowerCase();
  return chance(bits, 0.06) ? ` ${value} ` : value;
}

function writtenPhone(bits: number, number: string): string {
  const [area, exchange, line] = [number.slice(2, 5), number.slice(5, 8), number.slice(8)];
  const forms = [
    number,
    `(${area}) ${exchange}-${line}`,
    `${area}-${exchange}-${line}`,
    `+1 ${area} ${exchange} ${line}`,
  ];
  return pick(forms, bits);
}

function aboutPerson(source: Source, row: number): Content {
  const { people } = source;
  const index = source.personOf(row);
  const name = people.nameOf(index);
  const household = people.families.householdOf(index);
  const known = (question: number, share: number) => chance(ask(source, row, question), share);
  const stay = pick(people.addresses.staysOf(household, BASE_DAY).slice(0, 2), ask(source, row, 10));
  const address = known(11, 0.8) ? people.addresses.written(household, stay.slot) : null;
  const [email] = people.contacts.personalEmails(index);
  const [workEmail] = people.contacts.professionalEmails(index, BASE_DAY);
  const [phone] = people.contacts.phones(index);
  const linkedin = people.contacts.linkedinUrl(index);
  return {
    first_name: typed(source, row, 12, name.first),
    last_name: typed(source, row, 13, name.last),
    email: email !== undefined && known(14, 0.93) ? typed(source, row, 15, email) : null,
    work_email: workEmail !== undefined && known(16, 0.6) ? typed(source, row, 17, workEmail) : null,
    phone: phone && known(18, 0.75) ? writtenPhone(ask(source, row, 19), phone.number) : null,
    linkedin: linkedin !== null && known(20, 0.3) ? linkedin : null,
    street: address && typed(source, row, 21, address.line1),
    city: address && typed(source, row, 22, address.city),
    state: address && address.state,
    zip: address && known(23, 0.95) ? address.zip : null,
  };
}

function aboutStranger(source: Source, row: number): Content {
  const names = originOf(ask(source, row, 24));
  const first = pick(pick([...names.men, ...names.women], ask(source, row, 25)), ask(source, row, 26));
  const last = pick(names.last, ask(source, row, 27));
  const bits = ask(source, row, 28);
  const city = pick(cities, bits);
  return {
    ...NOTHING,
    first_name: first.text,
    last_name: last.text,
    email: `${first.slug}${last.slug}${bits % 1000}@elsewhere.example`,
    phone: chance(bits, 0.7) ? `+1${city.areaCode}55501${10 + (bits % 90)}` : null,
    street: `${9000 + (bits % 900)} ${pick(streets, ask(source, row, 29))}`,
    city: city.name,
    state: city.state,
    zip: `${city.zip3}${10 + (bits % 90)}`,
  };
}

/** Blank in place of null, here and there, as forms leave it. */
function withBlanks(source: Source, row: number, content: Content): Content {
  if (!chance(ask(source, row, 30), 0.05)) return content;
  const blank = chance(ask(source, row, 31), 0.5) ? "" : "   ";
  return {
    ...content,
    work_email: content.work_email ?? blank,
    phone: content.phone ?? blank,
    linkedin: content.linkedin ?? blank,
  };
}

function isDuplicate(source: Source, row: number): boolean {
  return row > 0 && chance(ask(source, row, 0), SHARES.duplicate);
}

function contentOf(source: Source, row: number): Content {
  if (isDuplicate(source, row)) {
    let earlier = Math.max(0, row - 1 - below(ask(source, row, 1), DUPLICATE_REACH));
    while (isDuplicate(source, earlier)) earlier -= 1; // row 0 never is one
    return contentOf(source, earlier);
  }
  const bits = ask(source, row, 2);
  if (chance(bits, SHARES.empty)) return withBlanks(source, row, NOTHING);
  if (chance(bits, SHARES.empty + SHARES.stranger))
    return withBlanks(source, row, aboutStranger(source, row));
  const content = aboutPerson(source, row);
  if (chance(ask(source, row, 3), SHARES.nameOnly)) {
    return { ...NOTHING, first_name: content.first_name, last_name: content.last_name };
  }
  return withBlanks(source, row, content);
}

/**
 * Rows of a customer table, with the dirt that such tables have; about 85 % are about somebody that the sandbox of
 * the same seed and population finds. A pure function of seed, population size and row: any number, constant memory.
 */
export function* sampleInputs(options: {
  readonly seed: number;
  readonly people: number;
  readonly rows: number;
}): Generator<SampleInput> {
  const people = createPeople(options.seed, options.people);
  const key = hashKey(options.seed);
  const shuffled = shuffleBelow(key, options.people, STREAM.sample);
  const source: Source = { key, people, personOf: (row) => shuffled(row % options.people) };
  const baseMs = BASE_DAY * 86_400_000;
  for (let row = 0; row < options.rows; row++) {
    const updatedMs =
      baseMs - below(ask(source, row, 32), 700) * 86_400_000 - below(ask(source, row, 33), 86_400_000);
    yield { id: row + 1, ...contentOf(source, row), updated_at: new Date(updatedMs).toISOString() };
  }
}
