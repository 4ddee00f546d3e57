import { boolean, date, integer, looseBoolean, numeric, text, texts } from "./field.ts";
import type { ListDeclaration } from "./record.ts";
import { column, columnsOf, type NamesPeople, type Table, table } from "./table.ts";

/** Scalar person fields of an enriched record (section 2.14), without `service_pid`. */
export const personFields = {
  full_name: text("direct", "Full name."),
  first_name: text("direct", "First name."),
  middle_name: text("direct", "Middle name."),
  last_name: text("direct", "Last name."),
  name_suffix: text("direct", "Name suffix, such as Jr."),
  gender: text("indirect", "Gender; values not documented."),
  dob: date("direct", "Date of birth."),
  age: integer("indirect", "Age in years."),
  marital_status: text("indirect", "Marital status; values not documented."),
  service_household_id: text("indirect", "Household that the person belongs to."),
  service_spouse_pid: text("indirect", "PID of the spouse."),
  number_of_children: integer("indirect", "Number of children."),
  is_retired: boolean("indirect", "True if the person is retired."),
  estimated_income_range: text("sensitive", "Estimated income, a range as text."),
  estimated_wealth_range: text("sensitive", "Estimated wealth, a range as text."),
  home_ownership_status: text("indirect", "Home owned or rented; values not documented."),
  has_bankruptcy_records: boolean("sensitive", "True if the person has bankruptcy records."),
  has_judgment_records: boolean("sensitive", "True if the person has judgment records."),
  linkedin_url: text("direct", "LinkedIn profile."),
  linkedin_title: text("indirect", "Title on LinkedIn."),
  linkedin_industry: text("indirect", "Industry on LinkedIn."),
  linkedin_profile_pic_url: text("direct", "Profile picture on LinkedIn."),
  is_likely_remote_worker: boolean("indirect", "True if the person likely works remotely."),
  facebook_url: text("direct", "Facebook profile."),
  twitter_url: text("direct", "Twitter profile."),
};

const emailFields = {
  email_rank: integer("none", "Rank among the person's addresses of this type; ranks may be equal."),
  email_address: text("direct", "E-mail address."),
};

const phoneFields = {
  phone_rank: integer("none", "Rank among the person's phones; ranks may be equal."),
  phone_type: text("none", "Type of the phone."),
  phone_number: text("direct", "Phone number."),
};

const relativeFields = {
  relative_service_pid: text("direct", "PID of the relative."),
  relative_first_name: text("direct", "First name of the relative."),
  relative_last_name: text("direct", "Last name of the relative."),
  relationship_label: text("indirect", "Relationship, such as parent."),
  relationship_sublabel: text("indirect", "More specific relationship."),
};

const addressFields = {
  address_rank: integer("none", "Rank among the person's addresses; ranks may be equal."),
  service_address_id: text("indirect", "The service's ID of the address."),
  address_line_1: text("direct", "First line."),
  address_line_2: text("direct", "Second line."),
  address_city: text("indirect", "City."),
  address_state: text("indirect", "State."),
  address_zipcode: text("indirect", "ZIP code."),
  address_zipcode4: text("indirect", "ZIP+4 code."),
  ownership_status: text("indirect", "Owned or rented; values not documented."),
  is_current_owner: looseBoolean("indirect", "True if the person owns it now."),
  purchase_date: text("indirect", "Date of purchase, as received."),
  purchase_price: numeric("sensitive", "Price at purchase, US dollars."),
  estimated_current_value: numeric("sensitive", "Estimated value, US dollars."),
  estimated_rental_value: numeric("sensitive", "Estimated rent, US dollars."),
  home_current_tax_liability: numeric("sensitive", "Tax liability, US dollars."),
  outstanding_loan_principal: numeric("sensitive", "Outstanding loan, US dollars."),
  current_property_equity_amount: numeric("sensitive", "Equity, US dollars."),
  sqft: numeric("indirect", "Area in square feet."),
  num_beds: numeric("indirect", "Bedrooms."),
  num_baths: numeric("indirect", "Bathrooms."),
  first_seen_date: text("none", "When the address was first seen, as received."),
  last_seen_date: text("none", "When the address was last seen, as received."),
};

const workFields = {
  experience_rank: integer("none", "Rank among the person's jobs; ranks may be equal."),
  service_experience_id: text("indirect", "The service's ID of this job."),
  work_company_name: text("indirect", "Company."),
  work_company_linkedin_url: text("none", "Company on LinkedIn."),
  work_company_website: text("none", "Website of the company."),
  work_company_industry: text("none", "Industry of the company."),
  work_company_naics_code: text("none", "NAICS code."),
  work_company_naics_description: text("none", "NAICS description."),
  work_company_sic_code: text("none", "SIC code."),
  work_company_sic_description: text("none", "SIC description."),
  work_title: text("indirect", "Title, as received."),
  standard_work_title: text("indirect", "Standardized title."),
  work_seniority_level: text("indirect", "Seniority."),
  work_department: text("indirect", "Department."),
  work_employment_type: text("indirect", "Full time, part time and similar."),
  work_status: text("indirect", "Status of the job; values seen: current, previous."),
  work_start_date: text("indirect", "Start date, as received."),
  work_end_date: text("indirect", "End date, as received."),
  work_city: text("indirect", "City."),
  work_state: text("indirect", "State."),
  work_country: text("indirect", "Country."),
};

const educationFields = {
  experience_rank: integer("none", "Rank among the person's degrees; ranks may be equal."),
  service_experience_id: text("indirect", "The service's ID of this experience."),
  institution_name: text("indirect", "Institution."),
  institution_linkedin_url: text("none", "Institution on LinkedIn."),
  education_information: text("indirect", "Free text about the education."),
  education_level: text("indirect", "Level reached."),
  education_start_date: text("indirect", "Start date, as received."),
  education_end_date: text("indirect", "End date, as received."),
  education_majors: texts("indirect", "Majors."),
  education_minors: texts("indirect", "Minors."),
};

/** Nested lists of an enriched record (section 2.14). */
export const personLists = {
  personal_emails: { fields: emailFields, table: "person_email", discriminator: "personal" },
  professional_emails: { fields: emailFields, table: "person_email", discriminator: "professional" },
  phones: { fields: phoneFields, table: "person_phone" },
  relatives: { fields: relativeFields, table: "person_relative" },
  address_history: { fields: addressFields, table: "person_address" },
  work_experience: { fields: workFields, table: "person_work_experience" },
  education_experience: { fields: educationFields, table: "person_education_experience" },
} satisfies Record<string, ListDeclaration>;

const pid = column("service_pid", "text", "direct", "PID of the person.");
const position = column("position", "position", "none", "0-based index in the service's list.");

/** One row per person. */
export const person: Table = table("person", {
  schema: "data",
  doc: "One row per enriched person (section 2.14); unaffected by a later non-match.",
  key: ["service_pid"],
  people: { pids: ["service_pid"], clears: ["service_spouse_pid"] },
  hasExtra: true,
  columns: [
    pid,
    ...columnsOf(personFields),
    column(
      "_record_synced_at",
      "timestamptz",
      "none",
      "When the person or any of its child rows last changed, including removals.",
      true,
    ),
  ],
});

const child = (
  name: string,
  doc: string,
  key: Table["columns"],
  columns: Table["columns"],
  named: NamesPeople = {},
): Table =>
  table(name, {
    schema: "data",
    doc,
    key: key.map((c) => c.name),
    columns: [...key, ...columns],
    hasExtra: true,
    parent: "person",
    people: { ...named, pids: ["service_pid", ...(named.pids ?? [])], isListOfPerson: true },
  });

/** Child tables of a person; each list is replaced as a whole. */
export const personChildren: readonly Table[] = [
  child(
    "person_email",
    "E-mail addresses of a person.",
    [pid, column("email_type", "text", "none", "`personal` or `professional`."), position],
    columnsOf(emailFields),
    { emails: ["email_address"] },
  ),
  child("person_phone", "Phones of a person.", [pid, position], columnsOf(phoneFields)),
  child("person_relative", "Relatives of a person.", [pid, position], columnsOf(relativeFields), {
    pids: ["relative_service_pid"],
  }),
  child("person_address", "Address history of a person.", [pid, position], columnsOf(addressFields)),
  child("person_work_experience", "Jobs of a person.", [pid, position], columnsOf(workFields)),
  child("person_education_experience", "Education of a person.", [pid, position], columnsOf(educationFields)),
];

/** PIDs for which the service returned another PID. */
export const personPidAlias: Table = table("person_pid_alias", {
  schema: "data",
  doc: "PIDs for which the service returned another PID.",
  key: ["sent_service_pid", "returned_service_pid"],
  people: { pids: ["sent_service_pid", "returned_service_pid"] },
  columns: [
    column("sent_service_pid", "text", "direct", "PID that was sent."),
    column("returned_service_pid", "text", "direct", "PID that was returned."),
    column("first_seen_at", "timestamptz", "none", "When this was first returned.", true),
  ],
});
