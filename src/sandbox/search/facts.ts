import type { CurrentJob } from "../population/careers.ts";
import type { People } from "../population/people.ts";
import { chooseFields, type PersonField } from "../population/person-fields.ts";

/** One person on one day. */
export interface Person {
  readonly people: People;
  readonly index: number;
  readonly day: number;
}

/** Reads one field as `/v2/enrich` returns it. */
function readerOf(name: PersonField): (person: Person) => unknown {
  const choice = chooseFields([name]);
  return ({ people, index, day }) => {
    const members: Readonly<Record<string, unknown>> = JSON.parse(
      `{${choice.text(people, index, day).slice(1)}}`,
    );
    return members[name];
  };
}

function textOf(name: PersonField): (person: Person) => string | null {
  const read = readerOf(name);
  return (person) => {
    const value = read(person);
    return typeof value === "string" ? value : null;
  };
}

const readAge = readerOf("age");
const readRetired = readerOf("is_retired");

export const genderOf = textOf("gender");
export const incomeOf = textOf("estimated_income_range");
export const wealthOf = textOf("estimated_wealth_range");
export const homeOwnershipOf = textOf("home_ownership_status");

/** Age in years; null if unknown. */
export function ageOf(person: Person): number | null {
  const age = readAge(person);
  return typeof age === "number" ? age : null;
}

/** True if the person is known to be retired. */
export function isRetired(person: Person): boolean {
  return readRetired(person) === true;
}

/** Current job; null if there is none. */
export function jobOf({ people, index, day }: Person): CurrentJob | null {
  return people.careers.currentJob(index, day);
}

/** State of the current address; null if unknown. */
export function stateOf({ people, index, day }: Person): string | null {
  return people.addresses.currentOf(index, people.families.householdOf(index), day)?.state ?? null;
}

/** Known levels of education, newest first. */
export function educationOf({ people, index }: Person): readonly string[] {
  return people.education.levelsOf(index);
}

/** Ways to reach a person. */
export const CHANNELS = {
  personal_email: ({ people, index }: Person) => people.contacts.personalEmails(index).length > 0,
  professional_email: ({ people, index, day }: Person) =>
    people.contacts.professionalEmails(index, day).length > 0,
  email: (person: Person): boolean => CHANNELS.personal_email(person) || CHANNELS.professional_email(person),
  phone: ({ people, index }: Person) => people.contacts.phones(index).length > 0,
  mobile_phone: ({ people, index }: Person) =>
    people.contacts.phones(index).some(({ type }) => type === "mobile"),
  linkedin: ({ people, index }: Person) => people.contacts.linkedinUrl(index) !== null,
  address: (person: Person) => stateOf(person) !== null,
} as const;
