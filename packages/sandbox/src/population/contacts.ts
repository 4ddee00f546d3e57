import { BASE_DAY, DAY_MS, occurrences } from "./calendar.ts";
import type { Careers } from "./careers.ts";
import type { Families } from "./family.ts";
import { type HashKey, below, chance, hash, pick, STREAM } from "./hash.ts";
import { CODE_LENGTH, codeText, codeValue, type Identifiers, type Slot } from "./identifiers.ts";

/** Personal addresses take slots 0 to 3, professional ones 4 to 7 by job. */
const FIRST_PROFESSIONAL_SLOT = 4;
/** Reserved by RFC 2606. */
const DOMAINS = ["mail.example", "inbox.example", "post.example.com", "webmail.example.net", "example.com"];
/** 160 area codes from 201 on, so that every phone has a number. */
const AREA_CODES = 160;
const FIRST_AREA_CODE = 201;
/** Average days between changes of an address's validity: about 2 % in a month. */
const VALIDITY_CHANGES_EVERY_DAYS = 1500;

/** Lower case, without spaces around it and without `+tag`. */
export function sanitizeEmail(address: string): string {
  return address
    .trim()
    .toLowerCase()
    .replace(/\+[^@]*@/, "@");
}

export type Contacts = ReturnType<typeof createContacts>;

/**
 * Makes the e-mail addresses, phones and profile links of a population of `people`, and the way back from them. Lower slots are
 * stronger.
 */
export function createContacts(
  key: HashKey,
  people: number,
  identifiers: Identifiers,
  families: Families,
  careers: Careers,
) {
  const ask = (index: number, question: number) => hash(key, index, STREAM.contact + question);
  const codeOf = (kind: "email" | "linkedin", index: number, slot: number) =>
    codeText(identifiers.hide(kind, index, slot));
  const localPart = (index: number, slot: number): string => {
    const first = families.firstNameOf(index).slug;
    const last = families.lastNameOf(index).slug;
    const names = [`${first}.${last}.`, `${first.slice(0, 1)}${last}`, `${first}_`, `${first}${last}`];
    return pick(names, ask(index, slot)) + codeOf("email", index, slot);
  };
  const personalCount = (index: number) => (chance(ask(index, 10), 0.12) ? 0 : 1 + below(ask(index, 11), 4));
  const personalEmail = (index: number, slot: number) =>
    `${localPart(index, slot)}@${pick(DOMAINS, ask(index, 12 + slot))}`;
  const professionalEmail = (index: number, job: number): string | null => {
    if (job < 0 || !chance(ask(index, 20 + (job & 31)), 0.55)) return null;
    const slot = FIRST_PROFESSIONAL_SLOT + (job & 3);
    return `${localPart(index, slot)}@${careers.companyOf(index, job).domain}`;
  };
  const phoneCount = (index: number) => (chance(ask(index, 60), 0.06) ? 0 : 1 + below(ask(index, 61), 5));
  const phoneOf = (index: number, slot: number) => {
    const value = identifiers.hide("phone", index, slot);
    const area = FIRST_AREA_CODE + (value % AREA_CODES);
    const rest = 2_000_000 + Math.floor(value / AREA_CODES);
    const bits = ask(index, 62 + slot);
    const type = chance(bits, 0.55) ? "mobile" : chance(bits, 0.85) ? "landline" : "voip";
    return { type: chance(bits, 0.98) ? type : null, number: `+1${area}${rest}` };
  };
  const linkedinUrl = (index: number): string | null => {
    if (!chance(ask(index, 70), 0.72)) return null;
    const name = `${families.firstNameOf(index).slug}-${families.lastNameOf(index).slug}`;
    return `https://www.linkedin.com/in/${name}-${codeOf("linkedin", index, 0)}`;
  };
  const reveal = (kind: "email" | "linkedin", code: string): Slot | null => {
    const value = codeValue(code);
    const found = value === null ? null : identifiers.reveal(kind, value);
    return found && found.index < people ? found : null;
  };

  return {
    personalEmails: (index: number): readonly string[] =>
      Array.from({ length: personalCount(index) }, (_, slot) => personalEmail(index, slot)),
    /** Newest job first. */
    professionalEmails(index: number, day: number): readonly string[] {
      const newest = careers.jobCount(index, day) - 1;
      return [newest, newest - 1].flatMap((job) => professionalEmail(index, job) ?? []);
    },
    phones: (index: number) => Array.from({ length: phoneCount(index) }, (_, slot) => phoneOf(index, slot)),
    linkedinUrl,
    /** Profile name in other networks. */
    profileSlug: (index: number) => `${families.firstNameOf(index).slug}.${codeOf("linkedin", index, 1)}`,
    findByEmail(address: string, day: number): Slot | null {
      const email = sanitizeEmail(address);
      const at = email.lastIndexOf("@");
      const found = reveal("email", email.slice(Math.max(0, at - CODE_LENGTH), at));
      if (!found) return null;
      const { index, slot } = found;
      if (slot < FIRST_PROFESSIONAL_SLOT) {
        return slot < personalCount(index) && personalEmail(index, slot) === email ? found : null;
      }
      for (let job = slot - FIRST_PROFESSIONAL_SLOT; job < careers.jobCount(index, day); job += 4) {
        if (professionalEmail(index, job) === email) return found;
      }
      return null;
    },
    findByPhone(number: string): Slot | null {
      const national = number.replace(/\D/g, "").replace(/^1(?=\d{10}$)/, "");
      const area = Number(national.slice(0, 3)) - FIRST_AREA_CODE;
      const rest = Number(national.slice(3)) - 2_000_000;
      const value = rest * AREA_CODES + area;
      if (national.length !== 10 || area < 0 || area >= AREA_CODES || rest < 0 || value >= 2 ** 30)
        return null;
      const found = identifiers.reveal("phone", value);
      return found.index < people && found.slot < phoneCount(found.index) ? found : null;
    },
    findByLinkedin(url: string): Slot | null {
      const slug = /linkedin\.com\/in\/([^/?#]+)/i.exec(url.trim())?.[1]?.toLowerCase() ?? "";
      const found = reveal("linkedin", slug.slice(-CODE_LENGTH));
      return found && linkedinUrl(found.index)?.endsWith(`/${slug}`) ? found : null;
    },
    /** Validity of an address; null if it was never seen. */
    validityOf({ index, slot }: Slot, day: number) {
      const stream = STREAM.emailValidity + slot * 1000;
      const changes = occurrences(key, index, stream, VALIDITY_CHANGES_EVERY_DAYS, day);
      const bits = hash(key, index, stream + 500 + changes.length);
      const status = chance(bits, 0.8) ? "valid" : chance(bits, 0.92) ? "invalid" : "unknown";
      if (chance(ask(index, 80 + slot), 0.04)) return { status, lastSeenMs: null };
      const lastDay = (changes.at(-1) ?? BASE_DAY) - below(bits, 365);
      return { status, lastSeenMs: lastDay * DAY_MS + (bits % DAY_MS) };
    },
  };
}
