import type { matchConditionFields } from "../../../../src/schemas/enrich.ts";
import type { personFields, personLists } from "../../../../src/schemas/person.ts";
import { ageOn, dayText } from "./calendar.ts";
import { below, chance, hash, pick, STREAM } from "./hash.ts";
import type { FullName, People } from "./people.ts";

/** A field of an enriched person (section 2.14) without `service_pid`. */
export type PersonField = keyof typeof personFields | keyof typeof personLists;

/** One person on one day, with facts that several fields share. */
interface Subject {
  readonly people: People;
  readonly index: number;
  readonly day: number;
  readonly name: FullName;
  readonly household: number;
}

/** Returns the JSON text of one field's value. */
type FieldWriter = (subject: Subject) => string;

/** JSON text of a text without quotes, backslashes and control characters. */
const quoted = (text: string | null): string => (text === null ? "null" : `"${text}"`);
/** 32 random bits for one question about a person. */
const ask = ({ people, index }: Subject, question: number): number =>
  hash(people.key, index, STREAM.person + 10 + question);
/** Writes null for a share of the people. */
const mostly =
  (question: number, unknownShare: number, write: FieldWriter): FieldWriter =>
  (subject) =>
    chance(ask(subject, question), unknownShare) ? "null" : write(subject);
/** True for a share of the people. */
const flag =
  (question: number, share: number): FieldWriter =>
  (subject) =>
    String(chance(ask(subject, question), share));
const oneOf =
  (values: readonly string[], question: number): FieldWriter =>
  (subject) =>
    quoted(pick(values, ask(subject, question)));

/** Labels of incomes and wealth, ascending. */
export const INCOMES =
  "<$25,000;$25,000-$49,999;$50,000-$99,999;$100,000-$149,999;$150,000-$249,999;$250,000+".split(";");
export const WEALTH = "<$10,000;$10,000-$99,999;$100,000-$499,999;$500,000-$999,999;$1,000,000+".split(";");
const SINGLE = ["Single", "Divorced", "Widowed"];

/** Rank by position; the first two are equal if `isTied`. */
const rankAt = (i: number, isTied: boolean): number => (isTied && i === 1 ? 1 : i + 1);

function emailsText(emails: readonly string[], isTied: boolean): string {
  const texts = emails.map((email, i) => `{"email_rank":${rankAt(i, isTied)},"email_address":"${email}"}`);
  return `[${texts.join()}]`;
}

function phonesText(subject: Subject): string {
  const isTied = chance(ask(subject, 30), 0.03);
  const texts = subject.people.contacts
    .phones(subject.index)
    .map(
      ({ type, number }, i) =>
        `{"phone_rank":${rankAt(i, isTied)},"phone_type":${quoted(type)},"phone_number":"${number}"}`,
    );
  return `[${texts.join()}]`;
}

function relativesText({ people, index, day }: Subject): string {
  const texts = people.families.relativesOf(index).map(({ index: other, label, sublabel }) => {
    const { first, last } = people.nameOf(other);
    const isVague = chance(hash(people.key, other, STREAM.person + 2), 0.25);
    return `{"relative_service_pid":"${people.pidOf(other, day)}","relative_first_name":"${first}","relative_last_name":"${last}","relationship_label":"${label}","relationship_sublabel":${quoted(isVague ? null : sublabel)}}`;
  });
  return `[${texts.join()}]`;
}

function linkedinTitleText(subject: Subject): string {
  const job = subject.people.careers.currentJob(subject.index, subject.day);
  if (!job || subject.people.contacts.linkedinUrl(subject.index) === null) return "null";
  const isShort = !chance(ask(subject, 31), 0.5);
  return JSON.stringify(isShort ? job.title : `${job.title} | ${job.company.industry}`);
}

/** Writer of every field, in the interface's order. */
const WRITERS = {
  full_name: ({ name }) => quoted(name.full),
  first_name: ({ name }) => quoted(name.first),
  middle_name: ({ name }) => quoted(name.middle),
  last_name: ({ name }) => quoted(name.last),
  name_suffix: ({ name }) => quoted(name.suffix),
  gender: mostly(0, 0.03, ({ people, index }) => (people.families.isMale(index) ? '"Male"' : '"Female"')),
  dob: mostly(1, 0.25, ({ people, index }) => quoted(dayText(people.families.birthDayOf(index)))),
  age: mostly(2, 0.1, ({ people, index, day }) => String(ageOn(people.families.birthDayOf(index), day))),
  marital_status: mostly(3, 0.2, (subject) =>
    subject.people.families.spouseOf(subject.index) === null ? oneOf(SINGLE, 4)(subject) : '"Married"',
  ),
  service_household_id: ({ people, household }) =>
    quoted(people.identifiers.opaqueId("h-", STREAM.householdId, household, 0)),
  service_spouse_pid: ({ people, index, day }) => {
    const spouse = people.families.spouseOf(index);
    return spouse === null ? "null" : quoted(people.pidOf(spouse, day));
  },
  number_of_children: mostly(5, 0.3, (subject) => String(below(ask(subject, 6), 5))),
  is_retired: mostly(7, 0.1, ({ people, index, day }) => String(people.careers.isRetired(index, day))),
  estimated_income_range: mostly(8, 0.12, oneOf(INCOMES, 9)),
  estimated_wealth_range: mostly(10, 0.2, oneOf(WEALTH, 11)),
  home_ownership_status: mostly(12, 0.15, ({ people, household, day }) => {
    const slot = people.addresses.staysOf(household, day)[0]?.slot ?? 0;
    return people.addresses.isOwned(household, slot) ? '"Owned"' : '"Rented"';
  }),
  has_bankruptcy_records: mostly(13, 0.3, flag(14, 0.03)),
  has_judgment_records: mostly(15, 0.3, flag(16, 0.05)),
  linkedin_url: ({ people, index }) => quoted(people.contacts.linkedinUrl(index)),
  linkedin_title: linkedinTitleText,
  linkedin_industry: mostly(17, 0.35, ({ people, index, day }) =>
    quoted(people.careers.currentJob(index, day)?.company.industry ?? null),
  ),
  linkedin_profile_pic_url: mostly(18, 0.55, ({ people, index }) =>
    quoted(`https://media.example/${people.identifiers.opaqueId("", STREAM.contact + 90, index, 0)}.jpg`),
  ),
  is_likely_remote_worker: mostly(19, 0.4, flag(20, 0.2)),
  facebook_url: mostly(21, 0.6, ({ people, index }) =>
    quoted(`https://www.facebook.com/${people.contacts.profileSlug(index)}`),
  ),
  twitter_url: mostly(22, 0.85, ({ people, index }) =>
    quoted(`https://twitter.com/${people.contacts.profileSlug(index)}`),
  ),
  personal_emails: (subject) =>
    emailsText(subject.people.contacts.personalEmails(subject.index), chance(ask(subject, 23), 0.04)),
  professional_emails: ({ people, index, day }) =>
    emailsText(people.contacts.professionalEmails(index, day), false),
  phones: phonesText,
  relatives: relativesText,
  address_history: ({ people, index, household, day }) => people.addresses.historyText(index, household, day),
  work_experience: ({ people, index, day }) => people.careers.historyText(index, day),
  education_experience: ({ people, index }) => people.education.historyText(index),
} satisfies Record<PersonField, FieldWriter>;

/** Fields with their writers; `start` is `,"name":`. */
const ALL = Object.entries<FieldWriter>(WRITERS).map(([name, write]) => ({
  name,
  start: `,"${name}":`,
  write,
}));

/** Names of every person field, in the interface's order. */
export const personFieldNames: readonly string[] = ALL.map(({ name }) => name);

/** A choice of fields. */
interface FieldChoice {
  /** JSON members of a person, each after a comma. */
  text(people: People, index: number, day: number): string;
  /** The same members without a person: null, and empty lists. */
  readonly unmatchedText: string;
}

const isList = (name: string): boolean => /(?:emails|phones|relatives|history|experience)$/.test(name);

/** Chooses the fields of these names, or all; unknown names are ignored. */
export function chooseFields(names: readonly string[] | null): FieldChoice {
  const chosen = names === null ? ALL : ALL.filter(({ name }) => names.includes(name));
  return {
    text(people, index, day) {
      const name = people.nameOf(index);
      const subject = { people, index, day, name, household: people.families.householdOf(index) };
      let text = "";
      for (const { start, write } of chosen) text += start + write(subject);
      return text;
    },
    unmatchedText: chosen.map(({ name, start }) => start + (isList(name) ? "[]" : "null")).join(""),
  };
}

/** A value of `match_condition_fields`. */
type Condition = (typeof matchConditionFields)[number];

/** True if one of the fields has a value. */
function hasAny(...names: readonly PersonField[]) {
  const choices = names.map((name) => chooseFields([name]));
  return (people: People, index: number, day: number): boolean =>
    choices.some((choice) => choice.text(people, index, day) !== choice.unmatchedText);
}

/** The interface doesn't define match conditions; in the sandbox the person must have the named field. */
const CONDITIONS: Record<Condition, ReturnType<typeof hasAny>> = {
  linkedin_url: hasAny("linkedin_url"),
  gender: hasAny("gender"),
  estimated_income_range: hasAny("estimated_income_range"),
  estimated_wealth_range: hasAny("estimated_wealth_range"),
  home_ownership_status: hasAny("home_ownership_status"),
  emails: hasAny("personal_emails", "professional_emails"),
  personal_email: hasAny("personal_emails"),
  professional_email: hasAny("professional_emails"),
  phone: hasAny("phones"),
  mobile_phone: (people, index) => people.contacts.phones(index).some(({ type }) => type === "mobile"),
};

/** True if a person meets every condition of a request. */
export function meetsConditions(
  people: People,
  index: number,
  day: number,
  conditions: readonly Condition[],
): boolean {
  return conditions.every((condition) => CONDITIONS[condition](people, index, day));
}
