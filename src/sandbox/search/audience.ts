import { setImmediate } from "node:timers/promises";
import type { People } from "../population/people.ts";
import { INCOMES, WEALTH } from "../population/person-fields.ts";
import { LEVELS } from "../population/education.ts";
import {
  ageOf,
  CHANNELS,
  educationOf,
  genderOf,
  homeOwnershipOf,
  incomeOf,
  jobOf,
  type Person,
  stateOf,
  wealthOf,
} from "./facts.ts";
import { type Expression, isIn } from "./parse-query.ts";

/** People looked at before other requests get their turn. */
const SLICE = 2000;

/** Calls a function for each person, in slices. */
async function forEachPerson(
  people: People,
  day: number,
  indexes: Iterable<number>,
  visit: (person: Person) => void,
): Promise<void> {
  let seen = 0;
  for (const index of indexes) {
    visit({ people, index, day });
    seen += 1;
    if (seen % SLICE === 0) await setImmediate();
  }
}

function* everybody(count: number): Generator<number> {
  for (let index = 0; index < count; index++) yield index;
}

/** Finds everybody of an audience, by index in the population. */
export async function findAudience(
  people: People,
  day: number,
  expression: Expression,
): Promise<readonly number[]> {
  const found: number[] = [];
  await forEachPerson(people, day, everybody(people.count), (person) => {
    if (isIn(expression, person)) found.push(person.index);
  });
  return found;
}

/** Counts the people with each channel. */
export async function countChannels<C extends keyof typeof CHANNELS>(
  people: People,
  day: number,
  indexes: readonly number[],
  channels: readonly C[],
): Promise<Readonly<Record<C, number>>> {
  const counts = new Map(channels.map((channel) => [channel, 0]));
  await forEachPerson(people, day, indexes, (person) => {
    for (const channel of channels) {
      if (CHANNELS[channel](person)) counts.set(channel, (counts.get(channel) ?? 0) + 1);
    }
  });
  // It has every channel as a key.
  return Object.fromEntries(counts) as Record<C, number>;
}

const AGES = ["Under 18", "18-24", "25-34", "35-44", "45-54", "55-64", "65-74", "75+"];

function ageLabel(age: number): string | undefined {
  if (age < 18) return AGES[0];
  return age < 25 ? AGES[1] : AGES[Math.min(7, 2 + Math.floor((age - 25) / 10))];
}

/** Number of people by label, in one distribution. */
interface Distribution {
  readonly labelOf: (person: Person) => string | null | undefined;
  /** Labels in their order; null for the most frequent ones first. */
  readonly labels: readonly string[] | null;
  /** Keeps this many labels. */
  readonly top?: number;
  /** Label for the others. */
  readonly rest?: string;
}

const known =
  (read: (person: Person) => string | null) =>
  (person: Person): string =>
    read(person) ?? "Unknown";
const LEVEL_NAMES = LEVELS.map(({ name }) => name).toReversed();

/** The distributions of section 2.5, in its order. */
const DISTRIBUTIONS: Readonly<Record<string, Distribution>> = {
  age: { labels: AGES, labelOf: (person) => ageLabelOf(ageOf(person)) },
  gender: { labels: ["Female", "Male", "Unknown"], labelOf: known(genderOf) },
  education_level: {
    labels: [...LEVEL_NAMES, "Unknown"],
    labelOf: (person) => {
      const levels = educationOf(person);
      return LEVEL_NAMES.find((level) => levels.includes(level)) ?? "Unknown";
    },
  },
  job_title: { labels: null, top: 10, labelOf: (person) => jobOf(person)?.standardTitle },
  home_ownership: { labels: ["Owned", "Rented", "Unknown"], labelOf: known(homeOwnershipOf) },
  income: { labels: [...INCOMES, "Unknown"], labelOf: known(incomeOf) },
  wealth: { labels: [...WEALTH, "Unknown"], labelOf: known(wealthOf) },
  current_address_state: { labels: null, top: 10, rest: "Other", labelOf: stateOf },
};

function ageLabelOf(age: number | null): string | undefined {
  return age === null ? undefined : ageLabel(age);
}

/** Share of a total in percent, two decimals. */
function percentageOf(count: number, total: number): number {
  return total === 0 ? 0 : Math.round((count * 10_000) / total) / 100;
}

/** Orders buckets and cuts them to the most frequent. */
function bucketsOf({ labels, top, rest }: Distribution, counts: ReadonlyMap<string, number>, total: number) {
  const entries = [...counts].toSorted(([a, n], [b, m]) =>
    labels ? labels.indexOf(a) - labels.indexOf(b) : m - n || (a < b ? -1 : 1),
  );
  const kept = entries.slice(0, top ?? entries.length);
  const others = entries.slice(kept.length).reduce((sum, [, count]) => sum + count, 0);
  const all = rest !== undefined && others > 0 ? [...kept, [rest, others] as const] : kept;
  return all.map(([label, count]) => ({ label, count, percentage: percentageOf(count, total) }));
}

/** The statistics of an audience (section 2.5). */
export async function describeAudience(people: People, day: number, indexes: readonly number[]) {
  const counts = new Map(Object.keys(DISTRIBUTIONS).map((name) => [name, new Map<string, number>()]));
  await forEachPerson(people, day, indexes, (person) => {
    for (const [name, { labelOf }] of Object.entries(DISTRIBUTIONS)) {
      const label = labelOf(person);
      const labels = counts.get(name);
      if (label !== null && label !== undefined) labels?.set(label, (labels.get(label) ?? 0) + 1);
    }
  });
  const channels = await countChannels(people, day, indexes, ["email", "phone", "address"]);
  const total = indexes.length;
  return {
    coverage: Object.fromEntries(
      Object.entries(channels).map(([channel, count]) => [
        channel,
        { count, percentage: percentageOf(count, total) },
      ]),
    ),
    distributions: Object.fromEntries(
      Object.entries(DISTRIBUTIONS).map(([name, distribution]) => [
        name,
        bucketsOf(distribution, counts.get(name) ?? new Map(), total),
      ]),
    ),
  };
}
