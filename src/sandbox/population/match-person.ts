import { hash } from "./hash.ts";
import { comparableName } from "./names.ts";
import type { FullName, People } from "./people.ts";
import { STREAM } from "./streams.ts";

/** What a caller knows about somebody: an input record of resolve or enrich, checked by its zod schema. */
export interface SentPerson {
  readonly record_id?: string;
  readonly service_pid?: string | null;
  readonly linkedin_url?: string | null;
  readonly first_name?: string | null;
  readonly middle_name?: string | null;
  readonly last_name?: string | null;
  readonly full_name?: string | null;
  readonly name_suffix?: string | null;
  readonly emails?: readonly string[] | null;
  readonly phones?: readonly string[] | null;
  readonly full_address?: string | null;
  readonly address_line_1?: string | null;
  readonly address_line_2?: string | null;
  readonly city?: string | null;
  readonly state?: string | null;
  readonly zipcode?: string | null;
}

/** A person found, with the additive points of section 4.7. */
export interface PersonMatch {
  readonly index: number;
  /** Rounded to two decimals, at least {@link MIN_SCORE}. */
  readonly score: number;
}

/** Matches below are not returned. */
export const MIN_SCORE = 50;
/** Points of a full name that agrees; less for an initial or for one part only. */
const NAME_POINTS = { last: 35, first: 25, initial: 12 };
/** Points that an identifier gives beside a name, before its own deviation. */
const EMAIL_POINTS = 24;
const PHONE_POINTS = 17;
const ADDRESS_POINTS = 22;
const LINKEDIN_POINTS = 70;
const PID_POINTS = 100;
/** An e-mail address or phone alone is enough where no name is sent (reverse lookup, enrich only). */
const REVERSE_POINTS = 38;

/** Whether a text holds anything. */
export function filled(text: string | null | undefined): text is string {
  return typeof text === "string" && text.trim() !== "";
}

/** Whether the record has a first and a last name, or a full name. */
export function hasName(sent: SentPerson): boolean {
  return filled(sent.full_name) || (filled(sent.first_name) && filled(sent.last_name));
}

/** Whether the record has an address that can be looked up: a full one, or a line with a city and state or a zip code. */
export function hasAddress(sent: SentPerson): boolean {
  const located = (filled(sent.city) && filled(sent.state)) || filled(sent.zipcode);
  return filled(sent.full_address) || (filled(sent.address_line_1) && located);
}

function sameName(sent: string, known: string): boolean {
  return sent === known || comparableName(sent) === comparableName(known);
}

function namePoints(sent: SentPerson, name: FullName): number {
  if (filled(sent.first_name) && filled(sent.last_name)) {
    let points = sameName(sent.last_name, name.last) ? NAME_POINTS.last : 0;
    if (sameName(sent.first_name, name.first)) points += NAME_POINTS.first;
    else if (comparableName(sent.first_name).slice(0, 1) === comparableName(name.first).slice(0, 1)) {
      points += NAME_POINTS.initial;
    }
    return points;
  }
  if (!filled(sent.full_name)) return 0;
  const full = sent.full_name;
  const forms = [name.full, `${name.first} ${name.last}`, `${name.last} ${name.first}`];
  if (forms.some((form) => sameName(full, form))) return NAME_POINTS.last + NAME_POINTS.first;
  const words = comparableName(full);
  return words.includes(comparableName(name.last)) ? NAME_POINTS.last : 0;
}

/** Between 0 and 5 points, two decimals, that depend on how strongly an identifier belongs to somebody. */
function deviation(people: People, index: number, slot: number): number {
  return (hash(people.key, index, STREAM.person + 90 + slot) % 500) / 100;
}

interface Candidate {
  readonly points: number;
  /** Identifiers that led here: `e` and `p` with a slot, `l`, `i`, `a`. */
  readonly slots: string;
}

/** The candidates of a record by the identifiers that it holds, with the points that these give. */
function findCandidates(people: People, sent: SentPerson, day: number): Map<number, Candidate> {
  const candidates = new Map<number, Candidate>();
  const add = (index: number, kind: string, points: number): void => {
    const known = candidates.get(index) ?? { points: 0, slots: "" };
    if (known.slots.includes(kind)) return; // the same identifier twice counts once
    candidates.set(index, { points: known.points + points, slots: `${known.slots}${kind} ` });
  };
  for (const email of sent.emails ?? []) {
    const found = people.contacts.findByEmail(email, day);
    if (found)
      add(
        found.index,
        `e${found.slot}`,
        EMAIL_POINTS - found.slot + deviation(people, found.index, found.slot),
      );
  }
  for (const phone of sent.phones ?? []) {
    const found = people.contacts.findByPhone(phone);
    if (found)
      add(
        found.index,
        `p${found.slot}`,
        PHONE_POINTS - found.slot + deviation(people, found.index, found.slot),
      );
  }
  if (filled(sent.linkedin_url)) {
    const found = people.contacts.findByLinkedin(sent.linkedin_url);
    if (found) add(found.index, "l", LINKEDIN_POINTS);
  }
  if (filled(sent.service_pid)) {
    const index = people.findByPid(sent.service_pid, day);
    if (index !== null) add(index, "i", PID_POINTS);
  }
  if (hasName(sent) && hasAddress(sent)) {
    for (const index of membersAt(people, sent)) add(index, "a", ADDRESS_POINTS);
  }
  return candidates;
}

/** Who lives or lived at the address of a record. */
function membersAt(people: People, sent: SentPerson): readonly number[] {
  let [line = "", city = "", stateAndZip = ""] = (sent.full_address ?? "")
    .split(",")
    .map((part) => part.trim());
  let [state = "", zip = ""] = stateAndZip.split(/\s+/);
  if (filled(sent.address_line_1)) {
    line = sent.address_line_1;
    city = sent.city ?? "";
    state = sent.state ?? "";
    zip = sent.zipcode ?? "";
  }
  const household = people.addresses.householdAt(line, city, state, zip);
  if (household === null) return [];
  const first = household - (household & 7);
  const family = Array.from({ length: 8 }, (_, role) => first + role);
  return family.filter((index) => index < people.count && people.families.householdOf(index) === household);
}

/** The best match of a record, or null; `reverse` also finds by e-mail address or phone where no name is sent. */
export function matchPerson(
  people: People,
  sent: SentPerson,
  day: number,
  options: { readonly reverse: boolean },
): PersonMatch | null {
  let best: PersonMatch | null = null;
  const named = hasName(sent);
  for (const [index, { points, slots }] of findCandidates(people, sent, day)) {
    const byName = named ? namePoints(sent, people.nameOf(index)) : 0;
    const reverse = options.reverse && !named && /[ep]/.test(slots) ? REVERSE_POINTS : 0;
    const score = Math.round((byName + points + reverse) * 100) / 100;
    if (score >= MIN_SCORE && score > (best?.score ?? 0)) best = { index, score };
  }
  return best;
}
