import type { enrichListFields, enrichScalarFields } from "../../../../src/schemas/enrich.ts";
import { hash, STREAM } from "../population/hash.ts";
import type { Slot } from "../population/identifiers.ts";
import { comparableName } from "../population/names.ts";
import type { People } from "../population/people.ts";

/** Input record of resolve or enrich. */
export type SentPerson = {
  readonly [field in "record_id" | (typeof enrichScalarFields)[number]]?: string | null;
} & { readonly [field in (typeof enrichListFields)[number]]?: readonly string[] | null };

/** Matches below are not returned. */
const MIN_SCORE = 50;
const NAME_POINTS = { last: 35, first: 25, initial: 12 };
/** Points of an identifier together with a name. */
const EMAIL_POINTS = 24;
const PHONE_POINTS = 17;
const ADDRESS_POINTS = 22;
const LINKEDIN_POINTS = 70;
const PID_POINTS = 100;
/** Points of an e-mail address or phone without a name (reverse lookup, enrich only). */
const REVERSE_POINTS = 38;

/** True for a text that isn't blank. */
export function filled(text: string | null | undefined): text is string {
  return typeof text === "string" && text.trim() !== "";
}

/** True with a first and a last name, or a full name. */
export function hasName(sent: SentPerson): boolean {
  return filled(sent.full_name) || (filled(sent.first_name) && filled(sent.last_name));
}

/** True with a full address, or a line with a city and state or a zip code. */
export function hasAddress(sent: SentPerson): boolean {
  const isLocated = (filled(sent.city) && filled(sent.state)) || filled(sent.zipcode);
  return filled(sent.full_address) || (filled(sent.address_line_1) && isLocated);
}

function sameName(sent: string, known: string): boolean {
  return sent === known || comparableName(sent) === comparableName(known);
}

function namePoints(sent: SentPerson, name: ReturnType<People["nameOf"]>): number {
  if (filled(sent.first_name) && filled(sent.last_name)) {
    const isSameInitial = comparableName(sent.first_name)[0] === comparableName(name.first)[0];
    const firstPoints = sameName(sent.first_name, name.first) ? NAME_POINTS.first : NAME_POINTS.initial;
    return (isSameInitial ? firstPoints : 0) + (sameName(sent.last_name, name.last) ? NAME_POINTS.last : 0);
  }
  if (!filled(sent.full_name)) return 0;
  const full = sent.full_name;
  const forms = [name.full, `${name.first} ${name.last}`, `${name.last} ${name.first}`];
  if (forms.some((form) => sameName(full, form))) return NAME_POINTS.last + NAME_POINTS.first;
  return comparableName(full).includes(comparableName(name.last)) ? NAME_POINTS.last : 0;
}

/** Candidates of a record by its identifiers, with the points of these. */
function findCandidates(people: People, sent: SentPerson, day: number) {
  // Each identifier counts once: `e0`, `p1`, `l`, `i`, `a`.
  const candidates = new Map<number, { points: number; readonly kinds: Set<string> }>();
  const add = (index: number | null | undefined, kind: string, points: number): void => {
    if (index === null || index === undefined) return;
    const candidate = candidates.get(index) ?? { points: 0, kinds: new Set() };
    candidates.set(index, candidate);
    if (!candidate.kinds.has(kind)) candidate.points += points;
    candidate.kinds.add(kind);
  };
  const addSlot = (found: Slot | null, kind: string, points: number): void => {
    if (!found) return;
    // 0 to 5 points more, by the strength of the identifier.
    const strength = (hash(people.key, found.index, STREAM.person + 90 + found.slot) % 500) / 100;
    add(found.index, `${kind}${found.slot}`, points - found.slot + strength);
  };
  const { contacts } = people;
  for (const email of sent.emails ?? []) addSlot(contacts.findByEmail(email, day), "e", EMAIL_POINTS);
  for (const phone of sent.phones ?? []) addSlot(contacts.findByPhone(phone), "p", PHONE_POINTS);
  if (filled(sent.linkedin_url)) add(contacts.findByLinkedin(sent.linkedin_url)?.index, "l", LINKEDIN_POINTS);
  if (filled(sent.service_pid)) add(people.findByPid(sent.service_pid, day), "i", PID_POINTS);
  if (hasName(sent) && hasAddress(sent)) {
    for (const index of residentsAt(people, sent)) add(index, "a", ADDRESS_POINTS);
  }
  return candidates;
}

/** Present and former residents at the address of a record. */
function residentsAt(people: People, sent: SentPerson): readonly number[] {
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

/** Best match of a record with its additive points, or null; `reverse` also finds by e-mail address or phone without a name. */
export function matchPerson(
  people: People,
  sent: SentPerson,
  day: number,
  options: { readonly reverse: boolean },
): { readonly index: number; readonly score: number } | null {
  let best: ReturnType<typeof matchPerson> = null;
  const isNamed = hasName(sent);
  for (const [index, { points, kinds }] of findCandidates(people, sent, day)) {
    const isReverse = options.reverse && !isNamed && [...kinds].some((kind) => /^[ep]/.test(kind));
    const extra = isNamed ? namePoints(sent, people.nameOf(index)) : isReverse ? REVERSE_POINTS : 0;
    const score = Math.round((points + extra) * 100) / 100;
    if (score >= MIN_SCORE && score > (best?.score ?? 0)) best = { index, score };
  }
  return best;
}
