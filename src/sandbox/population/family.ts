import { BASE_DAY } from "./calendar.ts";
import { type HashKey, below, chance, hash, pick } from "./hash.ts";
import { type Name, type OriginNames, originOf } from "./names.ts";
import { STREAM } from "./streams.ts";

/**
 * Eight neighbouring indexes are one family: 0 and 1 the grandparents, 2 their child with partner 3, 4 another child
 * with partner 7, 5 and 6 the children of 2 and 3. So whom a person is related to, married to or lives with is
 * computed, never stored.
 */
export const FAMILY_SIZE = 8;

/** `male` or `female`; drives first names and words for relatives. */
export type Gender = "male" | "female";

/** One relative of a person. */
export interface Relative {
  readonly index: number;
  readonly label: string;
  readonly sublabel: string;
}

/** By role: the partner's role, or null. */
const PARTNER: readonly (number | null)[] = [1, 0, 3, 2, 7, null, null, 4];
/** By role: 0 grandparents, 1 parents, 2 children. */
const GENERATION: readonly number[] = [0, 0, 1, 1, 1, 2, 2, 1];

type Bond = readonly [role: number, label: string, forMan: string, forWoman: string];
const spouse = (role: number): Bond => [role, "spouse", "husband", "wife"];
const parent = (role: number): Bond => [role, "parent", "father", "mother"];
const child = (role: number): Bond => [role, "child", "son", "daughter"];
const sibling = (role: number): Bond => [role, "sibling", "brother", "sister"];
const grandparent = (role: number): Bond => [role, "grandparent", "grandfather", "grandmother"];
const grandchild = (role: number): Bond => [role, "grandchild", "grandson", "granddaughter"];
const inLaw = (role: number): Bond => [role, "in_law", "father in law", "mother in law"];
const siblingInLaw = (role: number): Bond => [role, "in_law", "brother in law", "sister in law"];
const nephew = (role: number): Bond => [role, "other", "nephew", "niece"];

/** Whom each role is related to, the nearest first. */
const BONDS: readonly (readonly Bond[])[] = [
  [spouse(1), child(2), child(4), grandchild(5), grandchild(6)],
  [spouse(0), child(2), child(4), grandchild(5), grandchild(6)],
  [spouse(3), child(5), child(6), parent(0), parent(1), sibling(4)],
  [spouse(2), child(5), child(6), inLaw(0), inLaw(1)],
  [spouse(7), parent(0), parent(1), sibling(2), nephew(5), nephew(6)],
  [parent(2), parent(3), sibling(6), grandparent(0), grandparent(1)],
  [parent(2), parent(3), sibling(5), grandparent(0), grandparent(1)],
  [spouse(4), siblingInLaw(2), siblingInLaw(3)],
];

/** Facts about people that follow from their family. */
export interface Families {
  genderOf(index: number): Gender;
  /** 0 grandparents, 1 parents, 2 children. */
  generationOf(index: number): number;
  birthDayOf(index: number): number;
  firstNameOf(index: number): Name;
  lastNameOf(index: number): Name;
  originNamesOf(index: number): OriginNames;
  /** Index of the husband or wife, or null. */
  spouseOf(index: number): number | null;
  /** Index of the person that stands for the household: the same for all who live there. */
  householdOf(index: number): number;
  relativesOf(index: number): readonly Relative[];
}

const joined = (first: Name, second: Name): Name => ({
  text: `${first.text}-${second.text}`,
  decomposed: `${first.decomposed}-${second.decomposed}`,
  slug: first.slug + second.slug,
});

const DAYS_PER_YEAR = 365.25;
/** Years before the base day that the youngest was born. */
const YOUNGEST = 19;

/** First index of the family. */
const startOf = (index: number) => index - (index & 7);
const generationOf = (index: number) => GENERATION[index & 7] ?? 0;
/** Partners bring a family of their own. */
const cameFromOutside = (index: number) => (index & 7) === 3 || (index & 7) === 7;

/** Whom the person would be married to, or null. */
function partnerOf(index: number): number | null {
  const role = PARTNER[index & 7] ?? null;
  return role === null ? null : startOf(index) + role;
}

/** Families of a population of `people`; the last family may lack members. */
export function createFamilies(key: HashKey, people: number): Families {
  const ask = (index: number, question: number) => hash(key, index, STREAM.family + question);

  const genderOf = (index: number): Gender => {
    const role = index & 7;
    if (role < 2) return role === 0 ? "male" : "female";
    const own = chance(ask(index, 0), 0.5) ? "male" : "female";
    if (role !== 3 && role !== 7) return own;
    const other = genderOf(role === 3 ? index - 1 : index - 3);
    if (chance(ask(index, 1), 0.03)) return other;
    return other === "male" ? "female" : "male";
  };
  const birthDayOf = (index: number): number => {
    const start = startOf(index);
    const generation = generationOf(index);
    // Years before the base day: grandparents 73 to 94, each generation 21 to 33 years later.
    let age = 73 + below(ask(start, 2), 21);
    if (generation >= 1) age -= 21 + below(ask(start, 3), 12);
    if (generation === 2) age -= 21 + below(ask(start, 4), 12);
    age = Math.max(age, YOUNGEST) + below(ask(index, 5), 4);
    return BASE_DAY - Math.floor(age * DAYS_PER_YEAR) - below(ask(index, 6), 365);
  };
  const married = (index: number): boolean => {
    const role = index & 7;
    const pair = role === 7 ? index - 3 : index - (role & 1);
    return chance(ask(pair, 7), generationOf(index) === 0 ? 0.8 : 0.7);
  };
  const spouseOf = (index: number): number | null => {
    const partner = partnerOf(index);
    return partner !== null && partner < people && married(index) ? partner : null;
  };
  const familyOrigin = (index: number) => originOf(ask(startOf(index), 8));
  const originNamesOf = (index: number) =>
    cameFromOutside(index) && chance(ask(index, 9), 0.25) ? originOf(ask(index, 10)) : familyOrigin(index);
  const familyName = (index: number) => pick(familyOrigin(index).last, ask(startOf(index), 11));

  return {
    genderOf,
    generationOf,
    birthDayOf,
    originNamesOf,
    firstNameOf(index) {
      const names = originNamesOf(index);
      const lists = genderOf(index) === "male" ? names.men : names.women;
      return pick(lists[generationOf(index)] ?? [], ask(index, 12));
    },
    lastNameOf(index) {
      const family = familyName(index);
      if (!cameFromOutside(index)) return family;
      const own = pick(originNamesOf(index).last, ask(index, 13));
      if (!married(index)) return own;
      const choice = below(ask(index, 14), 10);
      if (choice < 6) return family;
      return choice < 7 && own.slug !== family.slug ? joined(own, family) : own;
    },
    spouseOf,
    householdOf(index) {
      const role = index & 7;
      if (role === 1 || role === 3 || role === 7) return spouseOf(index) ?? index;
      const livesWithParents = generationOf(index) === 2 && chance(ask(index, 15), 0.35);
      return livesWithParents ? startOf(index) + 2 : index;
    },
    relativesOf(index) {
      const start = startOf(index);
      const relatives: Relative[] = [];
      for (const [role, label, forMan, forWoman] of BONDS[index & 7] ?? []) {
        const other = start + role;
        if (other >= people) continue;
        const known = label === "spouse" ? spouseOf(index) === other : chance(ask(index, 16 + role), 0.72);
        if (known)
          relatives.push({ index: other, label, sublabel: genderOf(other) === "male" ? forMan : forWoman });
      }
      return relatives;
    },
  };
}
