import type { Cell } from "./convert.ts";
import { type Derivation, derivedColumns, derivedNames, partialDate } from "./derive.ts";
import {
  boolean,
  date,
  type Fields,
  integer,
  json,
  listPosition,
  numeric,
  oneOf,
  type PiiClass,
  prefixed,
  short,
  text,
  texts,
  timestamptz,
} from "./field.ts";
import type { ListDeclaration } from "./flatten.ts";
import { type NamesPeople, table } from "./table.ts";

const AMOUNT = /^(-?)\$?(\d{1,3}(?:,\d{3})+|\d+)([kmb]?)$/;
const ZEROS: Readonly<Record<string, string>> = { "": "", k: "000", m: "000000", b: "000000000" };
/** Longest text that is read. */
const LONGEST = 60;
/** Largest amount that every destination stores. */
const LARGEST = 10n ** 18n - 1n;
const UNKNOWN: readonly Cell[] = [null, null];

/** Whole dollars; null for another text. */
function readAmount(text: string): bigint | null {
  const [, sign, digits, unit = ""] = AMOUNT.exec(text) ?? [];
  if (digits === undefined) return null;
  const amount = BigInt(`${digits.replaceAll(",", "")}${ZEROS[unit]}`);
  if (amount > LARGEST) return null;
  return sign === "" ? amount : -amount;
}

/**
 * Returns the bounds of a range in US dollars, as its text states them: `$25,000-$49,999`, `$25K to $50K`, `<$25,000`,
 * `under $25,000`, `$250,000+`, `over $250,000`. Null for an open end, and for any other text.
 */
export function readMoneyRange(text: string): readonly Cell[] {
  if (text.length > LONGEST) return UNKNOWN;
  const range = text.trim().toLowerCase();
  const below = /^(?:<=?|under |less than |up to )\s*(.+)$/.exec(range)?.[1];
  if (below !== undefined) return [null, readAmount(below)?.toString() ?? null];
  const above = (/^(?:>=?|over |more than )\s*(.+)$/.exec(range) ??
    /^(.+?)(?:\+| or more)$/.exec(range))?.[1];
  if (above !== undefined) return [readAmount(above)?.toString() ?? null, null];
  const [, from = "", to = ""] = /^(.+?)\s*(?:-|–|\sto\s)\s*(.+)$/.exec(range) ?? [];
  const [min, max] = [readAmount(from), readAmount(to)];
  if (min === null || max === null || min > max) return UNKNOWN;
  // In `$50-99K` the unit may stand for both ends.
  const isShort = min > 0n && min < 1000n && /[kmb]$/.test(to) && !/[kmb]$/.test(from);
  return isShort ? UNKNOWN : [min.toString(), max.toString()];
}

/** Declares `X_min` and `X_max` of a field `X_range`. @param amount what the range is of */
function moneyRange<const Name extends string>(name: Name, pii: PiiClass, amount: string) {
  const unit = "in US dollars, read from the text; inclusive, unless the text says under, over, < or >";
  return {
    from: `${name}_range`,
    columns: prefixed(`${name}_` as const, {
      min: short(numeric(pii, `Lower end of the ${amount}, ${unit}; null if open or unknown.`)),
      max: short(numeric(pii, `Upper end of the ${amount}, ${unit}; null if open or unknown.`)),
    }),
    derive: readMoneyRange,
  };
}

/** Scalar person fields of an enriched record (section 2.14), without `service_pid`. */
export const personFields = {
  full_name: text("direct", "Full name, as received."),
  first_name: text("direct", "Given name."),
  middle_name: text("direct", "Middle name."),
  last_name: text("direct", "Family name."),
  name_suffix: text("direct", "Name suffix, such as Jr."),
  gender: text("indirect", "Gender, as received; the service documents no list of values."),
  dob: date("direct", "Date of birth."),
  age: integer("indirect", "Age in years when the person was enriched; use dob for the current age."),
  marital_status: text("indirect", "Marital status, as received; the service documents no list of values."),
  service_household_id: text("indirect", "The service's ID of the household that the person belongs to."),
  service_spouse_pid: text("indirect", "PID of the spouse, who may not be enriched."),
  number_of_children: integer("indirect", "Number of children; null if unknown."),
  is_retired: boolean("indirect", "True if the person is retired."),
  estimated_income_range: text(
    "sensitive",
    "Estimated income, a range as text, which doesn't sort by amount.",
  ),
  estimated_wealth_range: text(
    "sensitive",
    "Estimated wealth, a range as text, which doesn't sort by amount.",
  ),
  home_ownership_status: text(
    "indirect",
    "Owner or renter of the home, as received; the service documents no list of values.",
  ),
  has_bankruptcy_records: boolean("sensitive", "True if the person has bankruptcy records."),
  has_judgment_records: boolean("sensitive", "True if the person has judgment records."),
  linkedin_url: text("direct", "Address of the LinkedIn profile."),
  linkedin_title: text("indirect", "Headline of the LinkedIn profile, usually the job title."),
  linkedin_industry: text("indirect", "Industry stated in the LinkedIn profile."),
  linkedin_profile_pic_url: text("direct", "Address of the LinkedIn profile picture."),
  is_likely_remote_worker: boolean("indirect", "True if the person likely works remotely."),
  facebook_url: text("direct", "Address of the Facebook profile."),
  twitter_url: text("direct", "Address of the Twitter (X) profile."),
};

/** Columns of `person` computed from its fields. */
export const personDerived = [
  moneyRange("estimated_income", "sensitive", "estimated income"),
  moneyRange("estimated_wealth", "sensitive", "estimated wealth"),
] as const;

/** Columns of `person` filled from an answer, in order: fields, then derived columns. */
export const personScalars: readonly string[] = [
  ...Object.keys(personFields),
  ...derivedNames(personDerived),
];

const emailFields = {
  email_rank: integer("none", "Rank among the person's addresses of this type; may be equal."),
  email_address: text(
    "direct",
    "E-mail address, as received; email_validation has it in the case that was sent.",
  ),
};

const phoneFields = {
  phone_rank: integer("none", "Rank among the person's phones; may be equal."),
  phone_type: text("none", "Kind of phone, such as mobile or landline, as received."),
  phone_number: text("direct", "Phone number, as received."),
};

const relativeFields = {
  relative_service_pid: text("direct", "PID of the relative, who may not be enriched."),
  relative_first_name: text("direct", "First name of the relative."),
  relative_last_name: text("direct", "Last name of the relative."),
  relationship_label: text("indirect", "Relationship of the relative to the person, such as parent."),
  relationship_sublabel: text("indirect", "More specific relationship, such as mother; null if unknown."),
};

const addressFields = {
  address_rank: integer("none", "Rank among the person's addresses; may be equal."),
  service_address_id: text("indirect", "The service's ID of the address."),
  address_line_1: text("direct", "Street and number."),
  address_line_2: text("direct", "Apartment, unit or suite."),
  address_city: text("indirect", "City of the address."),
  address_state: text("indirect", "US state of the address, usually two letters."),
  address_zipcode: text("indirect", "Five-digit ZIP code, as text: leading zeros are kept."),
  address_zipcode4: text("indirect", "Last four digits of the ZIP+4 code."),
  ownership_status: text(
    "indirect",
    "Owned or rented, as received; the service documents no list of values.",
  ),
  is_current_owner: boolean("indirect", "True if the person owns the address now."),
  purchase_date: text("indirect", "Date of purchase, as received; may be a year, a month or a day."),
  purchase_price: numeric("sensitive", "Price paid at purchase, in US dollars."),
  estimated_current_value: numeric("sensitive", "Estimated current value of the property, in US dollars."),
  estimated_rental_value: numeric("sensitive", "Estimated rent of the property, in US dollars."),
  home_current_tax_liability: numeric("sensitive", "Property tax liability, in US dollars."),
  outstanding_loan_principal: numeric(
    "sensitive",
    "Outstanding principal of loans on the property, in US dollars.",
  ),
  current_property_equity_amount: numeric("sensitive", "Current equity in the property, in US dollars."),
  sqft: numeric("indirect", "Living area in square feet."),
  num_beds: numeric("indirect", "Number of bedrooms."),
  num_baths: numeric("indirect", "Number of bathrooms; halves are possible."),
  first_seen_date: text(
    "none",
    "When the person was first seen at the address, as received; may be a year, a month or a day.",
  ),
  last_seen_date: text(
    "none",
    "When the person was last seen at the address, as received; may be a year, a month or a day.",
  ),
};

const addressDerived = [
  partialDate("purchase", "indirect", "Day of purchase."),
  partialDate("first_seen", "none", "Day on which the person was first seen at the address."),
  partialDate("last_seen", "none", "Day on which the person was last seen at the address."),
] as const;

const workFields = {
  experience_rank: integer("none", "Rank among the person's jobs; may be equal."),
  service_experience_id: text("indirect", "The service's ID of this job of the person."),
  work_company_name: text("indirect", "Name of the employer."),
  work_company_linkedin_url: text("none", "LinkedIn page of the employer."),
  work_company_website: text("none", "Website of the employer."),
  work_company_industry: text("none", "Industry of the employer."),
  work_company_naics_code: text(
    "none",
    "NAICS code of the employer's industry (North American Industry Classification System), as text.",
  ),
  work_company_naics_description: text("none", "Industry of the NAICS code."),
  work_company_sic_code: text(
    "none",
    "SIC code of the employer's industry (Standard Industrial Classification), as text.",
  ),
  work_company_sic_description: text("none", "Industry of the SIC code."),
  work_title: text("indirect", "Job title, as received."),
  standard_work_title: text("indirect", "Job title, standardized by the service for grouping."),
  work_seniority_level: text("indirect", "Level of seniority, as received."),
  work_department: text("indirect", "Department or function, as received."),
  work_employment_type: text("indirect", "Full time, part time and so on, as received."),
  work_status: text("indirect", "`current` or `previous`; a person can have several current jobs."),
  work_start_date: text(
    "indirect",
    "Start of the job, as received: a year, a month or a day (2019, 2019-04, 2019-04-01).",
  ),
  work_end_date: text(
    "indirect",
    "End of the job, as received: a year, a month or a day; null for a current job.",
  ),
  work_city: text("indirect", "City of the workplace."),
  work_state: text("indirect", "State or region of the workplace."),
  work_country: text("indirect", "Country of the workplace."),
};

const workDerived = [
  partialDate("work_start", "indirect", "Start of the job."),
  partialDate("work_end", "indirect", "End of the job."),
] as const;

const educationFields = {
  experience_rank: integer("none", "Rank among the person's education; may be equal."),
  service_experience_id: text("indirect", "The service's ID of this education of the person."),
  institution_name: text("indirect", "Name of the school or university."),
  institution_linkedin_url: text("none", "LinkedIn page of the school or university."),
  education_information: text("indirect", "Free text about the education."),
  education_level: text("indirect", "Level of the education, such as a degree, as received."),
  education_start_date: text("indirect", "Start of the education, as received: a year, a month or a day."),
  education_end_date: text("indirect", "End of the education, as received: a year, a month or a day."),
  education_majors: texts("indirect", "Major subjects; also one row each in person_education_subject."),
  education_minors: texts("indirect", "Minor subjects; also one row each in person_education_subject."),
};

const educationDerived = [
  partialDate("education_start", "indirect", "Start of the education."),
  partialDate("education_end", "indirect", "End of the education."),
] as const;

/** Nested lists of an enriched record (section 2.14). */
export const personLists = {
  personal_emails: { fields: emailFields, table: "person_email", discriminator: "personal" },
  professional_emails: { fields: emailFields, table: "person_email", discriminator: "professional" },
  phones: { fields: phoneFields, table: "person_phone" },
  relatives: { fields: relativeFields, table: "person_relative" },
  address_history: { fields: addressFields, derived: addressDerived, table: "person_address" },
  work_experience: { fields: workFields, derived: workDerived, table: "person_work_experience" },
  education_experience: {
    fields: educationFields,
    derived: educationDerived,
    table: "person_education_experience",
  },
} satisfies Record<string, ListDeclaration>;

/** Derived columns by table. */
export const personDerivations: ReadonlyMap<string, readonly Derivation[]> = new Map<
  string,
  readonly Derivation[]
>([
  ["person", personDerived],
  ["person_address", addressDerived],
  ["person_work_experience", workDerived],
  ["person_education_experience", educationDerived],
]);

const pid = { service_pid: text("direct", "PID of the person.") };

export const person = table("person", {
  schema: "data",
  doc: "One row per enriched person; a later non-match changes nothing here.",
  key: ["service_pid"],
  people: { pids: ["service_pid"], clears: ["service_spouse_pid"] },
  hasExtra: true,
  columns: {
    ...pid,
    ...personFields,
    ...derivedColumns(personDerived),
    _record_synced_at: timestamptz(
      "none",
      "When the person or any of its child rows last changed, including removals.",
      "required",
    ),
  },
});

const NO_FIELDS = {};

/** Declares a list of a person. @param kind further columns of the key */
function child<const Name extends string, F extends Fields, Kind extends Fields = typeof NO_FIELDS>(
  name: Name,
  doc: string,
  columns: F,
  { pids = [], ...people }: NamesPeople = {},
  kind?: Kind,
) {
  const kinds = Object.keys(kind ?? {}) as (keyof Kind & string)[];
  return table(name, {
    schema: "data",
    doc,
    key: ["service_pid", ...kinds, "position"],
    columns: { ...pid, ...(kind as Kind), ...listPosition, ...columns },
    hasExtra: true,
    parent: "person",
    people: { ...people, pids: ["service_pid", ...pids], isListOfPerson: true },
  });
}

/** Child tables of a person; each list is replaced as a whole. */
export const personChildren = [
  child(
    "person_email",
    "E-mail addresses of a person.",
    emailFields,
    { emails: ["email_address"] },
    { email_type: oneOf(["personal", "professional"], "`personal` or `professional`.") },
  ),
  child("person_phone", "Phones of a person.", phoneFields),
  child("person_relative", "Relatives of a person.", relativeFields, { pids: ["relative_service_pid"] }),
  child("person_address", "Address history of a person.", {
    ...addressFields,
    ...derivedColumns(addressDerived),
  }),
  child("person_work_experience", "Current and past jobs of a person.", {
    ...workFields,
    ...derivedColumns(workDerived),
  }),
  child("person_education_experience", "Education of a person.", {
    ...educationFields,
    ...derivedColumns(educationDerived),
  }),
] as const;

export const personHistory = table("person_history", {
  schema: "data",
  doc: "Field groups of people as they were before a response changed them; the intervals of a group never overlap. Current values are in `person` and its lists.",
  key: ["service_pid", "field_group", "valid_from"],
  people: { pids: ["service_pid"] },
  columns: {
    ...pid,
    field_group: text(
      "none",
      `\`scalars\` (the row in \`person\`), or a list: ${Object.keys(personLists)
        .map((name) => `\`${name}\``)
        .join(", ")}.`,
    ),
    valid_from: timestamptz("none", "When this content was stored (inclusive)."),
    valid_to: timestamptz("none", "When other content was stored (exclusive).", "required"),
    content: json(
      "sensitive",
      "An object with the columns of the row, or an array of them in the order of the list; null if it named a person who was erased.",
    ),
  },
});

export const personPidAlias = table("person_pid_alias", {
  schema: "data",
  doc: "PIDs for which the service returned another PID.",
  key: ["sent_service_pid", "returned_service_pid"],
  people: { pids: ["sent_service_pid", "returned_service_pid"] },
  columns: {
    sent_service_pid: text("direct", "PID that was sent."),
    returned_service_pid: text("direct", "PID that was returned."),
    first_seen_at: timestamptz("none", "When this was first returned.", "required"),
  },
});
