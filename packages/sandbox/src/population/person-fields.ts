import type { personFields, personLists } from "../../../../src/schemas/person.ts";
import { ageOn, dayText } from "./calendar.ts";
import { below, chance, hash, pick, STREAM } from "./hash.ts";
import type { People } from "./people.ts";

/** A field of an enriched person (section 2.14) without `service_pid`. */
export type PersonField = keyof typeof personFields | keyof typeof personLists;

/** One person on one day. */
export interface Person {
  readonly people: People;
  readonly index: number;
  readonly day: number;
}

type Reader = (person: Person) => unknown;

/** 32 random bits for one question about a person. */
const ask = ({ people, index }: Person, question: number): number =>
  hash(people.key, index, STREAM.person + 10 + question);
/** Reads null for a share of the people. */
const mostly =
  <T>(question: number, unknownShare: number, read: (person: Person) => T) =>
  (person: Person): T | null =>
    chance(ask(person, question), unknownShare) ? null : read(person);
/** True for a share of the people. */
const flag = (question: number, share: number) => (person: Person) => chance(ask(person, question), share);
const oneOf = (values: readonly string[], question: number) => (person: Person) =>
  pick(values, ask(person, question));

/** Labels of incomes and wealth, ascending. */
export const INCOMES =
  "<$25,000;$25,000-$49,999;$50,000-$99,999;$100,000-$149,999;$150,000-$249,999;$250,000+".split(";");
export const WEALTH = "<$10,000;$10,000-$99,999;$100,000-$499,999;$500,000-$999,999;$1,000,000+".split(";");
const singleStatusOf = oneOf(["Single", "Divorced", "Widowed"], 4);

/** Rank by position; the first two are equal if `isTied`. */
const rankAt = (i: number, isTied: boolean): number => (isTied && i === 1 ? 1 : i + 1);

const rankedEmails = (emails: readonly string[], isTied: boolean) =>
  emails.map((email, i) => ({ email_rank: rankAt(i, isTied), email_address: email }));

const profileUrl =
  (site: string) =>
  ({ people, index }: Person) =>
    `https://${site}/${people.contacts.profileSlug(index)}`;

const jobOf = ({ people, index, day }: Person) => people.careers.currentJob(index, day);

/** Every field, in the interface's order. */
export const READERS = {
  full_name: ({ people, index }) => people.nameOf(index).full,
  first_name: ({ people, index }) => people.nameOf(index).first,
  middle_name: ({ people, index }) => people.nameOf(index).middle,
  last_name: ({ people, index }) => people.nameOf(index).last,
  name_suffix: ({ people, index }) => people.nameOf(index).suffix,
  gender: mostly(0, 0.03, ({ people, index }) => (people.families.isMale(index) ? "Male" : "Female")),
  dob: mostly(1, 0.25, ({ people, index }) => dayText(people.families.birthDayOf(index))),
  age: mostly(2, 0.1, ({ people, index, day }) => ageOn(people.families.birthDayOf(index), day)),
  marital_status: mostly(3, 0.2, (person) =>
    person.people.families.spouseOf(person.index) === null ? singleStatusOf(person) : "Married",
  ),
  service_household_id: ({ people, index }) =>
    people.identifiers.opaqueId("h-", STREAM.householdId, people.families.householdOf(index), 0),
  service_spouse_pid: ({ people, index, day }) => {
    const spouse = people.families.spouseOf(index);
    return spouse === null ? null : people.pidOf(spouse, day);
  },
  number_of_children: mostly(5, 0.3, (person) => below(ask(person, 6), 5)),
  is_retired: mostly(7, 0.1, ({ people, index, day }) => people.careers.isRetired(index, day)),
  estimated_income_range: mostly(8, 0.12, oneOf(INCOMES, 9)),
  estimated_wealth_range: mostly(10, 0.2, oneOf(WEALTH, 11)),
  home_ownership_status: mostly(12, 0.15, ({ people, index, day }) => {
    const household = people.families.householdOf(index);
    const slot = people.addresses.staysOf(household, day)[0]?.slot ?? 0;
    return people.addresses.isOwned(household, slot) ? "Owned" : "Rented";
  }),
  has_bankruptcy_records: mostly(13, 0.3, flag(14, 0.03)),
  has_judgment_records: mostly(15, 0.3, flag(16, 0.05)),
  linkedin_url: ({ people, index }) => people.contacts.linkedinUrl(index),
  linkedin_title: (person) => {
    const job = jobOf(person);
    if (!job || person.people.contacts.linkedinUrl(person.index) === null) return null;
    return flag(31, 0.5)(person) ? `${job.work_title} | ${job.company.industry}` : job.work_title;
  },
  linkedin_industry: mostly(17, 0.35, (person) => jobOf(person)?.company.industry ?? null),
  linkedin_profile_pic_url: mostly(
    18,
    0.55,
    ({ people, index }) =>
      `https://media.example/${people.identifiers.opaqueId("", STREAM.contact + 90, index, 0)}.jpg`,
  ),
  is_likely_remote_worker: mostly(19, 0.4, flag(20, 0.2)),
  facebook_url: mostly(21, 0.6, profileUrl("www.facebook.com")),
  twitter_url: mostly(22, 0.85, profileUrl("twitter.com")),
  personal_emails: (person) =>
    rankedEmails(person.people.contacts.personalEmails(person.index), flag(23, 0.04)(person)),
  professional_emails: ({ people, index, day }) =>
    rankedEmails(people.contacts.professionalEmails(index, day), false),
  phones: (person) => {
    const isTied = flag(30, 0.03)(person);
    return person.people.contacts.phones(person.index).map(({ type, number }, i) => ({
      phone_rank: rankAt(i, isTied),
      phone_type: type,
      phone_number: number,
    }));
  },
  relatives: ({ people, index, day }) =>
    people.families.relativesOf(index).map(({ index: other, label, sublabel }) => {
      const { first, last } = people.nameOf(other);
      const isVague = chance(hash(people.key, other, STREAM.person + 2), 0.25);
      return {
        relative_service_pid: people.pidOf(other, day),
        relative_first_name: first,
        relative_last_name: last,
        relationship_label: label,
        relationship_sublabel: isVague ? null : sublabel,
      };
    }),
  address_history: ({ people, index, day }) => people.addresses.history(index, day),
  work_experience: ({ people, index, day }) => people.careers.history(index, day),
  education_experience: ({ people, index }) => people.education.history(index),
} satisfies Record<PersonField, Reader>;

const ALL = Object.entries<Reader>(READERS);

/** Names of every person field, in the interface's order. */
export const personFieldNames: readonly string[] = ALL.map(([name]) => name);

const isList = (name: string): boolean => /(?:emails|phones|relatives|history|experience)$/.test(name);

/**
 * Fields of a person, all by default, after those of `head`; unknown names are ignored. Without a person null, and empty
 * lists.
 */
export function fieldsOf(person: Person | null, names: readonly string[] | null = null, head: object = {}) {
  const fields: Record<string, unknown> = { ...head };
  for (const [name, read] of ALL) {
    if (names && !names.includes(name)) continue;
    fields[name] = person ? read(person) : isList(name) ? [] : null;
  }
  return fields;
}

const hasPhone =
  (isWanted: (type: string | null) => boolean) =>
  ({ people, index }: Person): boolean =>
    people.contacts.phones(index).some(({ type }) => isWanted(type));

export const CHANNELS = {
  personal_email: ({ people, index }: Person) => people.contacts.personalEmails(index).length > 0,
  professional_email: ({ people, index, day }: Person) =>
    people.contacts.professionalEmails(index, day).length > 0,
  email: (person: Person): boolean => CHANNELS.personal_email(person) || CHANNELS.professional_email(person),
  phone: hasPhone(() => true),
  mobile_phone: hasPhone((type) => type === "mobile"),
  linkedin: ({ people, index }: Person) => people.contacts.linkedinUrl(index) !== null,
  address: ({ people, index, day }: Person) => people.addresses.currentOf(index, day) !== null,
} as const;
