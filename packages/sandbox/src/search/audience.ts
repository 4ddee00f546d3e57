import { setImmediate } from "node:timers/promises";
import { LEVELS } from "../population/education.ts";
import type { People } from "../population/people.ts";
import { INCOMES, WEALTH } from "../population/person-fields.ts";
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
} from "./criteria.ts";

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
  isMet: (person: Person) => boolean,
): Promise<readonly number[]> {
  const found: number[] = [];
  await forEachPerson(people, day, everybody(people.count), (person) => {
    if (isMet(person)) found.push(person.index);
  });
  return found;
}

/** Counts the people with each channel. */
export async function countChannels(
  people: People,
  day: number,
  indexes: readonly number[],
  channels: readonly (keyof typeof CHANNELS)[],
): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<keyof typeof CHANNELS, number>(channels.map((channel) => [channel, 0]));
  await forEachPerson(people, day, indexes, (person) => {
    for (const [channel, count] of counts) if (CHANNELS[channel](person)) counts.set(channel, count + 1);
  });
  return counts;
}

const AGES = ["Under 18", "18-24", "25-34", "35-44", "45-54", "55-64", "65-74", "75+"];

function ageLabel(person: Person): string | null {
  const age = ageOf(person);
  if (age === null) return null;
  const band = age < 18 ? 0 : age < 25 ? 1 : Math.min(7, 2 + Math.floor((age - 25) / 10));
  return AGES[band] ?? null;
}

/** Number of people by label, in one distribution. */
interface Distribution {
  /** Null leaves a person out. */
  readonly labelOf: (person: Person) => string | null;
  /** Labels in their order; the most frequent ones first by default. */
  readonly labels?: readonly string[];
  /** Keeps this many labels. */
  readonly top?: number;
  /** Label for the others. */
  readonly rest?: string;
}

const known = (read: (person: Person) => string | null) => (person: Person) => read(person) ?? "Unknown";
const LEVEL_NAMES = LEVELS.map(({ name }) => name).toReversed();

/** The distributions of section 2.5, in its order. */
const DISTRIBUTIONS: Readonly<Record<string, Distribution>> = {
  age: { labels: AGES, labelOf: ageLabel },
  gender: { labels: ["Female", "Male", "Unknown"], labelOf: known(genderOf) },
  education_level: {
    labels: [...LEVEL_NAMES, "Unknown"],
    labelOf: (person) => LEVEL_NAMES.find((level) => educationOf(person).includes(level)) ?? "Unknown",
  },
  job_title: { top: 10, labelOf: (person) => jobOf(person)?.standardTitle ?? null },
  home_ownership: { labels: ["Owned", "Rented", "Unknown"], labelOf: known(homeOwnershipOf) },
  income: { labels: [...INCOMES, "Unknown"], labelOf: known(incomeOf) },
  wealth: { labels: [...WEALTH, "Unknown"], labelOf: known(wealthOf) },
  current_address_state: { top: 10, rest: "Other", labelOf: stateOf },
};

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
  if (rest !== undefined && others > 0) kept.push([rest, others]);
  return kept.map(([label, count]) => ({ label, count, percentage: percentageOf(count, total) }));
}

/** The statistics of an audience (section 2.5). */
export async function describeAudience(people: People, day: number, indexes: readonly number[]) {
  const counted = Object.entries(DISTRIBUTIONS).map(([name, distribution]) => ({
    name,
    distribution,
    counts: new Map<string, number>(),
  }));
  await forEachPerson(people, day, indexes, (person) => {
    for (const { distribution, counts } of counted) {
      const label = distribution.labelOf(person);
      if (label !== null) counts.set(label, (counts.get(label) ?? 0) + 1);
    }
  });
  const total = indexes.length;
  const channels = await countChannels(people, day, indexes, ["email", "phone", "address"]);
  const coverage = [...channels].map(([channel, count]) => [
    channel,
    { count, percentage: percentageOf(count, total) },
  ]);
  const distributions = counted.map(({ name, distribution, counts }) => [
    name,
    bucketsOf(distribution, counts, total),
  ]);
  return { coverage: Object.fromEntries(coverage), distributions: Object.fromEntries(distributions) };
}
