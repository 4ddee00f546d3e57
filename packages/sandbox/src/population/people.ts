import { createAddresses } from "./addresses.ts";
import { BASE_DAY, keepLast } from "./calendar.ts";
import { createCareers } from "./careers.ts";
import { createContacts } from "./contacts.ts";
import { createEducation } from "./education.ts";
import { createFamilies } from "./family.ts";
import { below, chance, hash, hashKey, pick, STREAM } from "./hash.ts";
import { createIdentifiers, MAX_PEOPLE } from "./identifiers.ts";
import { SandboxError } from "../sandbox-error.ts";

const SUFFIXES = ["Jr.", "Sr.", "II", "III", "IV", "MD", "Ph.D."];
/** Share of the people who are merged once, within {@link MERGED_WITHIN_DAYS} after the base day. */
const MERGED_SHARE = 1 / 200;
const MERGED_WITHIN_DAYS = 1500;

export type People = ReturnType<typeof createPeople>;

/** Makes a synthetic population, of 1 to {@link MAX_PEOPLE} people: a pure function of seed and index, without memory. */
export function createPeople(seed: number, count: number) {
  if (!Number.isSafeInteger(seed) || !Number.isInteger(count) || count < 1 || count > MAX_PEOPLE) {
    throw new SandboxError(`The sandbox needs an integer as seed, and 1 to ${MAX_PEOPLE} people.`);
  }
  const key = hashKey(seed);
  const identifiers = createIdentifiers(key, count);
  const families = createFamilies(key, count);
  const careers = createCareers(key, identifiers, families);
  const ask = (index: number, question: number) => hash(key, index, STREAM.name + question);

  const generationOf = (index: number, day: number): number => {
    if (!chance(ask(index, 0), MERGED_SHARE)) return 0;
    return BASE_DAY + below(ask(index, 1), MERGED_WITHIN_DAYS) <= day ? 1 : 0;
  };
  const middleOf = (index: number): string | null => {
    const { men, women, familyFirst } = families.originNamesOf(index);
    if (familyFirst !== null || chance(ask(index, 2), 0.4)) return null;
    if (chance(ask(index, 3), 0.6)) return `${String.fromCharCode(65 + below(ask(index, 4), 26))}.`;
    return pick(families.isMale(index) ? men : women, ask(index, 5)).text;
  };

  const nameOf = keepLast((index) => {
    const { familyFirst } = families.originNamesOf(index);
    // A few are decomposed, as some systems store them.
    const form = chance(ask(index, 6), 0.04) ? "NFD" : "NFC";
    const first = families.firstNameOf(index).text.normalize(form);
    const last = families.lastNameOf(index).text.normalize(form);
    const middle = middleOf(index);
    const suffix = chance(ask(index, 7), 0.03) ? pick(SUFFIXES, ask(index, 8)) : null;
    const names = familyFirst === null ? [first, middle, last, suffix] : [last + familyFirst + first, suffix];
    return { first, middle, last, suffix, full: names.filter((name) => name !== null).join(" ") };
  });

  return {
    key,
    count,
    families,
    careers,
    identifiers,
    addresses: createAddresses(key, count, identifiers, families),
    contacts: createContacts(key, count, identifiers, families, careers),
    education: createEducation(key, identifiers, families),
    nameOf: (index: number) => nameOf(index, 0),
    /** PID in answers of that day; a few people get a new one when records are merged. */
    pidOf: (index: number, day: number) => identifiers.pid(index, generationOf(index, day)),
    /** Owner of a PID, also of one from before a merge; null for PIDs that don't exist on that day. */
    findByPid(pid: string, day: number): number | null {
      const owner = identifiers.ownerOfPid(pid);
      return owner && owner.generation <= generationOf(owner.index, day) ? owner.index : null;
    },
  };
}
