import { setImmediate } from "node:timers/promises";
import { LEVELS } from "../population/education.ts";
import type { People } from "../population/people.ts";
import { CHANNELS, INCOMES, type Person, READERS, WEALTH } from "../population/person-fields.ts";
import { educationOf, jobOf, stateOf } from "./criteria.ts";

/** People looked at before other requests get their turn. */
const SLICE = 2000;

/** People on one day, by index in the population. */
interface Audience {
  readonly people: People;
  readonly day: number;
  readonly indexes: Iterable<number>;
}

/** Counts people by label, in slices; null leaves a person out. */
async function countBy({ people, day, indexes }: Audience, labelOf: (person: Person) => string | null) {
  const counts = new Map<string, number>();
  let seen = 0;
  for (const index of indexes) {
    const label = labelOf({ people, index, day });
    if (label !== null) counts.set(label, (counts.get(label) ?? 0) + 1);
    seen += 1;
    if (seen % SLICE === 0) await setImmediate();
  }
  return counts;
}

function* everybody({ count }: People): Generator<number> {
  for (let index = 0; index < count; index++) yield index;
}

/** Finds everybody of an audience, by index in the population. */
export async function findAudience(people: People, day: number, isMet: (person: Person) => boolean) {
  const found: number[] = [];
  await countBy({ people, day, indexes: everybody(people) }, (person) => {
    if (isMet(person)) found.push(person.index);
    return null;
  });
  return found;
}

/** Counts the people with each channel, with a share of all in percent. */
export async function countChannels(audience: Audience, channels: readonly (keyof typeof CHANNELS)[]) {
  const counts: [channel: string, count: number][] = [];
  for (const channel of channels) {
    const labels = await countBy(audience, (person) => (CHANNELS[channel](person) ? channel : null));
    counts.push([channel, labels.get(channel) ?? 0]);
  }
  return counts;
}

const AGES = ["Under 18", "18-24", "25-34", "35-44", "45-54", "55-64", "65-74", "75+"];

function ageLabel(person: Person): string | null {
  const age = READERS.age(person);
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

/** Labels of a field, in their order; the last one is for null. */
const labeled = (labels: readonly string[], read: (person: Person) => string | null): Distribution => ({
  labels: [...labels, "Unknown"],
  labelOf: (person) => read(person) ?? "Unknown",
});
const LEVEL_NAMES = LEVELS.map(({ name }) => name).toReversed();

/** The distributions of section 2.5, in its order. */
const DISTRIBUTIONS: Readonly<Record<string, Distribution>> = {
  age: { labels: AGES, labelOf: ageLabel },
  gender: labeled(["Female", "Male"], READERS.gender),
  education_level: labeled(
    LEVEL_NAMES,
    (person) => LEVEL_NAMES.find((level) => educationOf(person).includes(level)) ?? null,
  ),
  job_title: { top: 10, labelOf: (person) => jobOf(person)?.standard_work_title ?? null },
  home_ownership: labeled(["Owned", "Rented"], READERS.home_ownership_status),
  income: labeled(INCOMES, READERS.estimated_income_range),
  wealth: labeled(WEALTH, READERS.estimated_wealth_range),
  current_address_state: { top: 10, rest: "Other", labelOf: stateOf },
};

/** Count with its share of a total in percent, two decimals. */
const shareOf = (count: number, total: number) => ({
  count,
  percentage: total === 0 ? 0 : Math.round((count * 10_000) / total) / 100,
});

/** Orders buckets and cuts them to the most frequent. */
function bucketsOf({ labels, top, rest }: Distribution, counts: ReadonlyMap<string, number>, total: number) {
  const entries = [...counts].toSorted(([a, n], [b, m]) =>
    labels ? labels.indexOf(a) - labels.indexOf(b) : m - n || (a < b ? -1 : 1),
  );
  const kept = entries.slice(0, top ?? entries.length);
  const others = entries.slice(kept.length).reduce((sum, [, count]) => sum + count, 0);
  if (rest !== undefined && others > 0) kept.push([rest, others]);
  return kept.map(([label, count]) => ({ label, ...shareOf(count, total) }));
}

/** The statistics of an audience (section 2.5). */
export async function describeAudience(people: People, day: number, indexes: readonly number[]) {
  const total = indexes.length;
  const distributions: Record<string, ReturnType<typeof bucketsOf>> = {};
  for (const [name, distribution] of Object.entries(DISTRIBUTIONS)) {
    const counts = await countBy({ people, day, indexes }, distribution.labelOf);
    distributions[name] = bucketsOf(distribution, counts, total);
  }
  const channels = await countChannels({ people, day, indexes }, ["email", "phone", "address"]);
  const coverage = Object.fromEntries(channels.map(([name, count]) => [name, shareOf(count, total)]));
  return { coverage, distributions };
}
