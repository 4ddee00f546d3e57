import { type Careers } from "./careers.ts";
import { BASE_DAY, occurrences } from "./calendar.ts";
import type { Families } from "./family.ts";
import { type HashKey, below, chance, hash, pick } from "./hash.ts";
import { CODE_LENGTH, codeText, codeValue, type Identifiers } from "./identifiers.ts";
import { cities } from "./places.ts";
import { MORE_AREA_CODES } from "./places-data.ts";
import { STREAM } from "./streams.ts";

/** What the service knows about an address's validity on a day. */
export interface EmailValidity {
  readonly status: "valid" | "invalid" | "unknown";
  /** Milliseconds since the epoch; null when never seen. */
  readonly lastSeenMs: number | null;
}

/** One of a person's identifiers, by which it was found. */
export interface Found {
  readonly index: number;
  /** Rank-like number of the identifier: lower slots are more strongly associated. */
  readonly slot: number;
}

/** E-mail addresses, phones and profile links of people, and the way back from them. */
export interface Contacts {
  personalEmails(index: number): readonly string[];
  /** Newest job first. */
  professionalEmails(index: number, day: number): readonly string[];
  phones(
    index: number,
  ): readonly { readonly type: "mobile" | "landline" | "voip" | null; readonly number: string }[];
  linkedinUrl(index: number): string | null;
  /** A profile of another network, by `question`. */
  profileSlug(index: number): string;
  findByEmail(address: string, day: number): Found | null;
  findByPhone(number: string): Found | null;
  findByLinkedin(url: string): Found | null;
  validityOf(found: Found, day: number): EmailValidity;
}

/** Personal addresses take slots 0 to 3, professional ones 4 to 7 by job. */
const FIRST_PROFESSIONAL_SLOT = 4;
/** Reserved by RFC 2606: none of these addresses can belong to anybody. */
const DOMAINS = [
  "mail.example",
  "inbox.example",
  "post.example.com",
  "webmail.example.net",
  "fastbox.example.org",
  "example.com",
];
const AREA_CODES = [...cities.map((city) => city.areaCode), ...MORE_AREA_CODES];
const areaByCode = new Map(AREA_CODES.map((code, i) => [code, i]));
const MS_PER_DAY = 86_400_000;
/** Average days between changes of an address's validity: about 2 % in a month. */
const VALIDITY_CHANGES_EVERY_DAYS = 1500;

/** Lower case, no spaces around it, no `+tag`. */
export function sanitizeEmail(address: string): string {
  return address
    .trim()
    .toLowerCase()
    .replace(/\+[^@]*@/, "@");
}

/** The contacts of a population of `people`. */
export function createContacts(
  key: HashKey,
  people: number,
  identifiers: Identifiers,
  families: Families,
  careers: Careers,
): Contacts {
  const ask = (index: number, question: number) => hash(key, index, STREAM.contact + question);

  const localPart = (index: number, slot: number): string => {
    const first = families.firstNameOf(index).slug;
    const last = families.lastNameOf(index).slug;
    const code = codeText(identifiers.hide("email", index, slot));
    switch (below(ask(index, slot), 5)) {
      case 0:
        return `${first}.${last}.${code}`;
      case 1:
        return `${first.slice(0, 1)}${last}${code}`;
      case 2:
        return `${first}_${code}`;
      case 3:
        return `${last}.${first}.${code}`;
      default:
        return `${first}${last}${code}`;
    }
  };
  const personalCount = (index: number) => {
    const bits = ask(index, 10);
    return chance(bits, 0.12) ? 0 : 1 + below(ask(index, 11), 4);
  };
  const personalEmail = (index: number, slot: number) =>
    `${localPart(index, slot)}@${pick(DOMAINS, ask(index, 12 + slot))}`;
  const professionalEmail = (index: number, job: number): string | null => {
    const slot = FIRST_PROFESSIONAL_SLOT + (job & 3);
    if (!chance(ask(index, 20 + (job & 31)), 0.55)) return null;
    return `${localPart(index, slot)}@${careers.companyOf(index, job).domain}`;
  };
  const phoneCount = (index: number) => (chance(ask(index, 60), 0.06) ? 0 : 1 + below(ask(index, 61), 5));
  const phoneNumber = (index: number, slot: number): string => {
    const value = identifiers.hide("phone", index, slot);
    const rest = Math.floor(value / AREA_CODES.length);
    const line = String(rest % 10_000).padStart(4, "0");
    return `+1${AREA_CODES[value % AREA_CODES.length]}${200 + Math.floor(rest / 10_000)}${line}`;
  };
  const linkedinUrl = (index: number): string | null => {
    if (!chance(ask(index, 70), 0.72)) return null;
    const code = codeText(identifiers.hide("linkedin", index, 0));
    return `https://www.linkedin.com/in/${families.firstNameOf(index).slug}-${families.lastNameOf(index).slug}-${code}`;
  };

  return {
    personalEmails: (index) =>
      Array.from({ length: personalCount(index) }, (_, slot) => personalEmail(index, slot)),
    professionalEmails(index, day) {
      const newest = careers.jobCount(index, day) - 1;
      const emails: string[] = [];
      for (let job = newest; job >= 0 && job > newest - 2; job--) {
        const email = professionalEmail(index, job);
        if (email !== null) emails.push(email);
      }
      return emails;
    },
    phones: (index) =>
      Array.from({ length: phoneCount(index) }, (_, slot) => {
        const bits = ask(index, 62 + slot);
        const type = chance(bits, 0.55)
          ? "mobile"
          : chance(bits, 0.85)
            ? "landline"
            : chance(bits, 0.95)
              ? "voip"
              : null;
        return { type, number: phoneNumber(index, slot) };
      }),
    linkedinUrl,
    profileSlug: (index) =>
      `${families.firstNameOf(index).slug}.${families.lastNameOf(index).slug}.${codeText(identifiers.hide("linkedin", index, 1))}`,
    findByEmail(address, day) {
      const email = sanitizeEmail(address);
      const at = email.lastIndexOf("@");
      const value = codeValue(email.slice(Math.max(0, at - CODE_LENGTH), at));
      if (value === null) return null;
      const found = identifiers.reveal("email", value);
      const { index, slot } = found;
      if (index >= people) return null;
      if (slot < FIRST_PROFESSIONAL_SLOT) {
        return slot < personalCount(index) && personalEmail(index, slot) === email ? found : null;
      }
      for (let job = slot - FIRST_PROFESSIONAL_SLOT; job < careers.jobCount(index, day); job += 4) {
        if (professionalEmail(index, job) === email) return found;
      }
      return null;
    },
    findByPhone(number) {
      const digits = number.replace(/\D/g, "");
      const national = digits.length === 11 && digits.startsWith("1") ? digits.slice(1) : digits;
      const area = areaByCode.get(national.slice(0, 3));
      if (national.length !== 10 || area === undefined) return null;
      const rest = (Number(national.slice(3, 6)) - 200) * 10_000 + Number(national.slice(6));
      const value = rest * AREA_CODES.length + area;
      if (rest < 0 || value >= 2 ** 30) return null;
      const found = identifiers.reveal("phone", value);
      return found.index < people && found.slot < phoneCount(found.index) ? found : null;
    },
    findByLinkedin(url) {
      const slug = /linkedin\.com\/in\/([^/?#]+)/i.exec(url.trim())?.[1]?.toLowerCase();
      const value = slug === undefined ? null : codeValue(slug.slice(-CODE_LENGTH));
      if (slug === undefined || value === null) return null;
      const found = identifiers.reveal("linkedin", value);
      return found.index < people && linkedinUrl(found.index)?.endsWith(`/${slug}`) ? found : null;
    },
    validityOf({ index, slot }, day) {
      const changes = occurrences(
        key,
        index,
        STREAM.emailValidity + slot * 1000,
        VALIDITY_CHANGES_EVERY_DAYS,
        day,
      );
      const bits = hash(key, index, STREAM.emailValidity + slot * 1000 + 500 + changes.length);
      const status = chance(bits, 0.8) ? "valid" : chance(bits, 0.92) ? "invalid" : "unknown";
      if (chance(ask(index, 80 + slot), 0.04)) return { status, lastSeenMs: null };
      // Last seen on some day of the year before the last change, or before the base day.
      const since = changes.at(-1) ?? BASE_DAY;
      return { status, lastSeenMs: (since - below(bits, 365)) * MS_PER_DAY + (bits % MS_PER_DAY) };
    },
  };
}
