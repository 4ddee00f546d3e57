import type { personFields, personLists } from "../../schemas/person.ts";
import { ageOn, dayText } from "./calendar.ts";
import { below, chance, hash, pick } from "./hash.ts";
import type { FullName, People } from "./people.ts";
import { STREAM } from "./streams.ts";

/** A field of an enriched person (section 2.14), `service_pid` apart. */
export type PersonField = keyof typeof personFields | keyof typeof personLists;

/** What several fields of one person on one day have in common. */
export interface Subject {
  readonly people: People;
  readonly index: number;
  readonly day: number;
  readonly name: FullName;
  readonly household: number;
}

/** JSON text of one field's value. */
type FieldWriter = (subject: Subject) => string;

/** JSON text of a text that holds neither quotes nor backslashes nor control characters. */
const quoted = (text: string | null): string => (text === null ? "null" : `"${text}"`);
/** One question about a person, answered by 32 random-looking bits. */
const ask = ({ people, index }: Subject, question: number): number =>
  hash(people.key, index, STREAM.person + 10 + question);
/** Unknown for the given share of the people. */
const knownBut = (subject: Subject, question: number, unknownShare: number): boolean =>
  !chance(ask(subject, question), unknownShare);

const INCOMES = [
  "<$25,000",
  "$25,000-$49,999",
  "$50,000-$74,999",
  "$75,000-$99,999",
  "$100,000-$149,999",
  "$150,000-$249,999",
  "$250,000+",
];
const WEALTH = [
  "<$10,000",
  "$10,000-$99,999",
  "$100,000-$249,999",
  "$250,000-$499,999",
  "$500,000-$999,999",
  "$1,000,000+",
];
const SINGLE = ["Single", "Divorced", "Widowed"];

/** Makes the text of a list of e-mail addresses; of three or more the second sometimes shares the first one's rank. */
function emailsText(emails: readonly string[], equalRanks: boolean): string {
  let text = "[";
  for (let i = 0; i < emails.length; i++) {
    const rank = equalRanks && i === 1 ? 1 : i + 1;
    text += `${i === 0 ? "" : ","}{"email_rank":${rank},"email_address":"${emails[i]}"}`;
  }
  return `${text}]`;
}

function phonesText(subject: Subject): string {
  const equalRanks = chance(ask(subject, 30), 0.03);
  let text = "[";
  let i = 0;
  for (const phone of subject.people.contacts.phones(subject.index)) {
    const rank = equalRanks && i === 1 ? 1 : i + 1;
    text += `${i === 0 ? "" : ","}{"phone_rank":${rank},"phone_type":${quoted(phone.type)},"phone_number":"${phone.number}"}`;
    i += 1;
  }
  return `${text}]`;
}

function relativesText(subject: Subject): string {
  const { people, index, day } = subject;
  let text = "[";
  for (const relative of people.families.relativesOf(index)) {
    const { first, last } = people.nameOf(relative.index);
    const sublabel = chance(hash(people.key, relative.index, STREAM.person + 2), 0.25)
      ? null
      : relative.sublabel;
    text += `${text === "[" ? "" : ","}{"relative_service_pid":"${people.pidOf(relative.index, day)}","relative_first_name":"${first}","relative_last_name":"${last}","relationship_label":"${relative.label}","relationship_sublabel":${quoted(sublabel)}}`;
  }
  return `${text}]`;
}

function linkedinTitleText(subject: Subject): string {
  const job = subject.people.careers.currentJob(subject.index, subject.day);
  if (!job || subject.people.contacts.linkedinUrl(subject.index) === null) return "null";
  return JSON.stringify(knownBut(subject, 31, 0.5) ? job.title : `${job.title} | ${job.company.industry}`);
}

/** How the text of every field is made, in the interface's order. */
const WRITERS = {
  full_name: ({ name }) => quoted(name.full),
  first_name: ({ name }) => quoted(name.first),
  middle_name: ({ name }) => quoted(name.middle),
  last_name: ({ name }) => quoted(name.last),
  name_suffix: ({ name }) => quoted(name.suffix),
  gender: (subject) =>
    knownBut(subject, 0, 0.03)
      ? subject.people.families.genderOf(subject.index) === "male"
        ? '"Male"'
        : '"Female"'
      : "null",
  dob: (subject) =>
    knownBut(subject, 1, 0.25) ? quoted(dayText(subject.people.families.birthDayOf(subject.index))) : "null",
  age: (subject) =>
    knownBut(subject, 2, 0.1)
      ? String(ageOn(subject.people.families.birthDayOf(subject.index), subject.day))
      : "null",
  marital_status: (subject) => {
    if (!knownBut(subject, 3, 0.2)) return "null";
    const married = subject.people.families.spouseOf(subject.index) !== null;
    return quoted(married ? "Married" : pick(SINGLE, ask(subject, 4)));
  },
  service_household_id: ({ people, household }) =>
    quoted(people.identifiers.opaqueId("h-", STREAM.householdId, household, 0)),
  service_spouse_pid: ({ people, index, day }) => {
    const spouse = people.families.spouseOf(index);
    return spouse === null ? "null" : quoted(people.pidOf(spouse, day));
  },
  number_of_children: (subject) => (knownBut(subject, 5, 0.3) ? String(below(ask(subject, 6), 5)) : "null"),
  is_retired: (subject) =>
    knownBut(subject, 7, 0.1) ? String(subject.people.careers.isRetired(subject.index)) : "null",
  estimated_income_range: (subject) =>
    knownBut(subject, 8, 0.12) ? quoted(pick(INCOMES, ask(subject, 9))) : "null",
  estimated_wealth_range: (subject) =>
    knownBut(subject, 10, 0.2) ? quoted(pick(WEALTH, ask(subject, 11))) : "null",
  home_ownership_status: (subject) => {
    if (!knownBut(subject, 12, 0.15)) return "null";
    const { people, household, day } = subject;
    const slot = people.addresses.staysOf(household, day)[0]?.slot ?? 0;
    return people.addresses.isOwned(household, slot) ? '"Owned"' : '"Rented"';
  },
  has_bankruptcy_records: (subject) =>
    knownBut(subject, 13, 0.3) ? String(chance(ask(subject, 14), 0.03)) : "null",
  has_judgment_records: (subject) =>
    knownBut(subject, 15, 0.3) ? String(chance(ask(subject, 16), 0.05)) : "null",
  linkedin_url: ({ people, index }) => quoted(people.contacts.linkedinUrl(index)),
  linkedin_title: linkedinTitleText,
  linkedin_industry: (subject) => {
    const job = subject.people.careers.currentJob(subject.index, subject.day);
    return job && knownBut(subject, 17, 0.35) ? quoted(job.company.industry) : "null";
  },
  linkedin_profile_pic_url: (subject) =>
    knownBut(subject, 18, 0.55)
      ? quoted(
          `https://media.example/${subject.people.identifiers.opaqueId("", STREAM.contact + 90, subject.index, 0)}.jpg`,
        )
      : "null",
  is_likely_remote_worker: (subject) =>
    knownBut(subject, 19, 0.4) ? String(chance(ask(subject, 20), 0.2)) : "null",
  facebook_url: (subject) =>
    knownBut(subject, 21, 0.6)
      ? quoted(`https://www.facebook.com/${subject.people.contacts.profileSlug(subject.index)}`)
      : "null",
  twitter_url: (subject) =>
    knownBut(subject, 22, 0.85)
      ? quoted(`https://twitter.com/${subject.people.contacts.profileSlug(subject.index)}`)
      : "null",
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

interface WrittenField {
  readonly name: string;
  /** `,"name":` */
  readonly start: string;
  readonly write: FieldWriter;
}

const ALL: readonly WrittenField[] = Object.entries(WRITERS).map(([name, write]) => ({
  name,
  start: `,"${name}":`,
  write,
}));

/** The names of every person field, in the interface's order. */
export const personFieldNames: readonly string[] = ALL.map((field) => field.name);

/** A choice of fields, ready to be written. */
export interface FieldChoice {
  /** JSON members of a person, each after a comma. */
  text(people: People, index: number, day: number): string;
  /** The same members without a person: null, and empty lists. */
  readonly unmatchedText: string;
}

const LISTS: ReadonlySet<string> = new Set<keyof typeof personLists>([
  "personal_emails",
  "professional_emails",
  "phones",
  "relatives",
  "address_history",
  "work_experience",
  "education_experience",
]);

/** Chooses the fields of those names (unknown ones are ignored), or all. */
export function chooseFields(names: readonly string[] | null): FieldChoice {
  const chosen = names === null ? ALL : ALL.filter((field) => names.includes(field.name));
  return {
    text(people, index, day) {
      const subject: Subject = {
        people,
        index,
        day,
        name: people.nameOf(index),
        household: people.families.householdOf(index),
      };
      let text = "";
      for (const field of chosen) text += field.start + field.write(subject);
      return text;
    },
    unmatchedText: chosen.map((field) => field.start + (LISTS.has(field.name) ? "[]" : "null")).join(""),
  };
}
