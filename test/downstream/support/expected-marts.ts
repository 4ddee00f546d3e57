import { createHmac } from "node:crypto";
import { fieldsOf } from "../../../packages/sandbox/src/population/person-fields.ts";
import { createPeople } from "../../../packages/sandbox/src/population/people.ts";
import type { NightTruth, StatedDeath } from "./night-truth.ts";
import { PEOPLE, PRICES, SEED, VIP } from "./nights-config.ts";
import { type Marts, plain } from "./marts.ts";
import { ERASURE_SECRET, type SandboxNights } from "./sandbox-nights.ts";

const DAY_MS = 86_400_000;
const dayOf = (instant: string) => new Date(instant).toISOString().slice(0, 10);

/** Fields of a person at the sandbox, on the day (`YYYY-MM-DD`) of the answer; lists left out. */
export function statedPerson(pid: string, day: string): Readonly<Record<string, string | null>> {
  const people = createPeople(SEED, PEOPLE);
  const dayNumber = Date.parse(day) / DAY_MS;
  const index = people.findByPid(pid, dayNumber);
  if (index === null) throw new Error("the sandbox does not know a PID of the marts");
  const fields = { service_pid: pid, ...fieldsOf({ people, index, day: dayNumber }) };
  const scalars = Object.entries(fields).filter(([, value]) => !Array.isArray(value));
  return Object.fromEntries(scalars.map(([name, value]) => [name, plain(value)]));
}

/** Days of the segment `VIP` on which somebody came or went: members at its end, added, removed. */
export function statedMembership({
  nights,
  erased,
}: SandboxNights): readonly (readonly (string | number)[])[] {
  const days = new Map<string, { added: number; removed: number }>();
  const count = (day: string, kind: "added" | "removed") => {
    const counts = days.get(day) ?? { added: 0, removed: 0 };
    counts[kind] += 1;
    days.set(day, counts);
  };
  let before: ReadonlySet<string> = new Set();
  for (const { truth } of nights) {
    const members = (truth.segments[VIP] ?? []).filter(
      ({ is_member: isMember, service_pid: pid }) => isMember && pid !== erased.pid,
    );
    const present = new Set(members.map(({ service_pid: pid }) => pid));
    for (const { service_pid: pid, last_added_at: at } of members)
      if (!before.has(pid)) count(dayOf(at), "added");
    for (const pid of before) if (!present.has(pid)) count(dayOf(truth.now), "removed");
    before = present;
  }
  let members = 0;
  return [...days]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([day, { added, removed }]) => [day, (members += added - removed), added, removed]);
}

/** Death signals of all nights, each as last stated; without those of the erased person. */
export function statedDeaths({
  nights,
  erased,
}: SandboxNights): readonly (StatedDeath & { readonly isReported: boolean })[] {
  const found = new Map<string, StatedDeath>();
  for (const { truth } of nights) {
    for (const signal of Object.values(truth.deaths).flat()) found.set(keyOf(signal), signal);
  }
  const reported = new Set(
    Object.values(nights.at(-1)?.truth.deaths ?? {})
      .flat()
      .map(keyOf),
  );
  return [...found.values()]
    .filter(({ service_pid: pid }) => pid !== erased.pid)
    .map((signal) => ({ ...signal, isReported: reported.has(keyOf(signal)) }));
}

const keyOf = (signal: StatedDeath) => `${signal.obituary_id} ${signal.service_pid}`;

/** A change of a person's job or address between two nights: PID, old and new values. */
export type StatedChange = readonly [pid: string, old: readonly unknown[], now: readonly unknown[]];

/** Changes of some columns of people from one night to the next, by the marts of each. */
export function changesBetween(
  nights: readonly Marts[],
  columns: readonly string[],
  areKnown: (values: readonly unknown[]) => boolean,
): readonly StatedChange[] {
  const people = nights.map(
    (marts) =>
      new Map(
        (marts["dim_person"] ?? []).map((row) => [
          String(row["service_pid"]),
          columns.map((column) => row[column] ?? null),
        ]),
      ),
  );
  return people.slice(1).flatMap((now, i) =>
    [...now].flatMap(([pid, values]): StatedChange[] => {
      const old = people[i]?.get(pid);
      const isChange = old && areKnown(old) && areKnown(values) && String(old) !== String(values);
      return isChange ? [[pid, old, values]] : [];
    }),
  );
}

/** Charges by day, endpoint (without method and slash) and price: records billed and amount. */
export function statedCost({ nights }: SandboxNights): readonly string[] {
  const priced: Readonly<Record<string, number>> = {
    "v1/resolve": PRICES.resolve,
    "v2/validate_emails": PRICES.validate_emails,
    "v2/enrich": PRICES.enrich,
    "person-search/v0/search-jobs/{segment_id}/results": PRICES.unlock,
    "person-search/v0/contact-jobs/{job_id}/results": PRICES.unlock,
  };
  let before: NightTruth["ledger"] = {};
  const lines: string[] = [];
  for (const { truth } of nights) {
    for (const [endpoint, { billed }] of Object.entries(truth.ledger)) {
      const name = endpoint.replace(/^[A-Z]+ \//, "");
      const records = billed - (before[endpoint]?.billed ?? 0);
      const price = priced[name] ?? 0;
      if (records > 0)
        lines.push(`${dayOf(truth.now)} ${name} ${records} ${Number((records * price).toFixed(6))}`);
    }
    before = truth.ledger;
  }
  return lines.toSorted();
}

/** Keyed hash of a subject, as the erasure request of another system would make it. */
export const keyedHash = (subject: string): string =>
  createHmac("sha256", ERASURE_SECRET).update(subject, "utf8").digest("hex");
