import { BASE_DAY } from "./calendar.ts";
import { type HashKey, below, chance, hash, pick, STREAM } from "./hash.ts";
import { originOf } from "./names.ts";

/**
 * Eight neighboring indexes are one family, so relatives are computed and never stored. Roles: 0 and 1 grandparents, 2 their
 * child with partner 3, 4 another child with partner 7, 5 and 6 the children of 2 and 3.
 */
const FAMILY_SIZE = 8;
/** Role of the partner, by role. */
const PARTNER: readonly (number | null)[] = [1, 0, 3, 2, 7, null, null, 4];
/** 0 grandparents, 1 parents, 2 children, by role. */
const GENERATION: readonly number[] = [0, 0, 1, 1, 1, 2, 2, 1];
/** Label and role of each relative, by role, the nearest first. */
const BONDS = [
  "spouse 1,child 2,child 4,grandchild 5,grandchild 6",
  "spouse 0,child 2,child 4,grandchild 5,grandchild 6",
  "spouse 3,child 5,child 6,parent 0,parent 1,sibling 4",
  "spouse 2,child 5,child 6,in_law 0,in_law 1",
  "spouse 7,parent 0,parent 1,sibling 2,other 5,other 6",
  "parent 2,parent 3,sibling 6,grandparent 0,grandparent 1",
  "parent 2,parent 3,sibling 5,grandparent 0,grandparent 1",
  "spouse 4,in_law 0,in_law 1",
].map((line) => line.split(",").map((bond) => bond.split(" ")));
/** Words for a man and for a woman. */
const SUBLABELS: Readonly<Record<string, readonly [string, string]>> = {
  spouse: ["husband", "wife"],
  parent: ["father", "mother"],
  child: ["son", "daughter"],
  sibling: ["brother", "sister"],
  grandparent: ["grandfather", "grandmother"],
  grandchild: ["grandson", "granddaughter"],
  in_law: ["father in law", "mother in law"],
  other: ["nephew", "niece"],
};
/** Years before the base day in which the youngest were born. */
const YOUNGEST = 19;

const roleOf = (index: number) => index % FAMILY_SIZE;
const startOf = (index: number) => index - roleOf(index);
const generationOf = (index: number) => GENERATION[roleOf(index)] ?? 0;
const isPartner = (index: number) => roleOf(index) === 3 || roleOf(index) === 7;

export type Families = ReturnType<typeof createFamilies>;

/** Families of a population of `people`; the last family may lack members. */
export function createFamilies(key: HashKey, people: number) {
  const ask = (index: number, question: number) => hash(key, index, STREAM.family + question);
  const spouseOf = (index: number): number | null => {
    const role = PARTNER[roleOf(index)] ?? null;
    const partner = role === null ? people : startOf(index) + role;
    const isMarried = chance(ask(Math.min(index, partner), 7), generationOf(index) === 0 ? 0.8 : 0.7);
    return partner < people && isMarried ? partner : null;
  };
  const isMale = (index: number): boolean => {
    if (roleOf(index) < 2) return roleOf(index) === 0;
    if (!isPartner(index)) return chance(ask(index, 0), 0.5);
    const isLikePartner = chance(ask(index, 1), 0.03);
    return isMale(startOf(index) + (PARTNER[roleOf(index)] ?? 0)) === isLikePartner;
  };
  const originNamesOf = (index: number) => originOf(ask(startOf(index), 8));
  return {
    isMale,
    birthDayOf(index: number): number {
      const start = startOf(index);
      // Grandparents are 73 to 94, each generation is 21 to 33 years younger.
      let age = 73 + below(ask(start, 2), 21);
      if (generationOf(index) >= 1) age -= 21 + below(ask(start, 3), 12);
      if (generationOf(index) === 2) age -= 21 + below(ask(start, 4), 12);
      age = Math.max(age, YOUNGEST) + below(ask(index, 5), 4);
      return BASE_DAY - Math.floor(age * 365.25) - below(ask(index, 6), 365);
    },
    originNamesOf,
    firstNameOf(index: number) {
      const { men, women } = originNamesOf(index);
      return pick(isMale(index) ? men : women, ask(index, 12));
    },
    lastNameOf(index: number) {
      const { last } = originNamesOf(index);
      const keepsOwn = isPartner(index) && (spouseOf(index) === null || chance(ask(index, 14), 0.4));
      return pick(last, keepsOwn ? ask(index, 13) : ask(startOf(index), 11));
    },
    /** Index of the husband or wife, or null. */
    spouseOf,
    /** Index of the household's representative: the same for all its members. */
    householdOf(index: number): number {
      if (roleOf(index) === 1 || isPartner(index)) return spouseOf(index) ?? index;
      const livesWithParents = generationOf(index) === 2 && chance(ask(index, 15), 0.35);
      return livesWithParents ? startOf(index) + 2 : index;
    },
    relativesOf(index: number) {
      return (BONDS[roleOf(index)] ?? []).flatMap(([label = "", role = ""]) => {
        const other = startOf(index) + Number(role);
        const isKnown =
          label === "spouse" ? spouseOf(index) === other : chance(ask(index, 16 + Number(role)), 0.72);
        const sublabel = SUBLABELS[label]?.[isMale(other) ? 0 : 1] ?? "";
        return other < people && isKnown ? [{ index: other, label, sublabel }] : [];
      });
    },
  };
}
