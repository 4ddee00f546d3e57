import { describe, expect, test } from "vitest";
import { DriftLog } from "../../src/schemas/convert.ts";
import { enrichEndpoint } from "../../src/schemas/enrich.ts";
import { resolveEndpoint } from "../../src/schemas/resolve.ts";
import { tableNamed } from "../../src/schemas/registry.ts";
import { validateEmailsEndpoint } from "../../src/schemas/validate-emails.ts";
import { childTables, nameResult } from "./named-rows.ts";

// Every field of sections 2.12 to 2.14 of the service's interface, written down from the document, not from the code:
// each has a value of its own, so that a field in the wrong column can't go unnoticed.

const resolved = {
  record_id: "r-1",
  is_match: true,
  service_pid: "p-1",
  match_score: 87.53,
  is_resolvable_record: false,
  validation_errors: { emails: ["malformed"] },
};

const validated = {
  email_address: "Ana@example.com",
  is_match: true,
  email_validation_status: "valid",
  email_last_seen: "2026-03-04T05:06:07.123456",
};

const enriched = {
  record_id: "r-2",
  is_match: true,
  service_pid: "p-2",
  match_score: 121.5,
  validation_errors: null,
  full_name: "Ana Maria Núñez Jr.",
  first_name: "Ana",
  middle_name: "Maria",
  last_name: "Núñez",
  name_suffix: "Jr.",
  gender: "Female",
  dob: "1978-04-09",
  age: 48,
  marital_status: "Married",
  service_household_id: "h-1",
  service_spouse_pid: "p-3",
  number_of_children: 2,
  is_retired: false,
  estimated_income_range: "$100,000-$124,999",
  estimated_wealth_range: "$250,000-$499,999",
  home_ownership_status: "Owned",
  has_bankruptcy_records: false,
  has_judgment_records: true,
  linkedin_url: "https://linkedin.example/in/ana",
  linkedin_title: "Actuary",
  linkedin_industry: "Insurance",
  linkedin_profile_pic_url: "https://linkedin.example/pic/ana",
  is_likely_remote_worker: true,
  facebook_url: "https://facebook.example/ana",
  twitter_url: "https://twitter.example/ana",
  personal_emails: [
    { email_rank: 1, email_address: "ana@home.example" },
    { email_rank: 1, email_address: "ana.n@home.example" },
  ],
  professional_emails: [{ email_rank: 1, email_address: "ana@work.example" }],
  phones: [{ phone_rank: 3, phone_type: "mobile", phone_number: "+15550100" }],
  relatives: [
    {
      relative_service_pid: "p-4",
      relative_first_name: "Luz",
      relative_last_name: "Prado",
      relationship_label: "parent",
      relationship_sublabel: null,
    },
  ],
  address_history: [
    {
      address_rank: 1,
      service_address_id: "a-1",
      address_line_1: "12 Elm Street",
      address_line_2: "Apt 3",
      address_city: "Springfield",
      address_state: "IL",
      address_zipcode: "62704",
      address_zipcode4: "0017",
      ownership_status: "owner",
      is_current_owner: "Y",
      purchase_date: "2009-06",
      purchase_price: "231500.00",
      estimated_current_value: 402100.55,
      estimated_rental_value: 2150.5,
      home_current_tax_liability: "4312.17",
      outstanding_loan_principal: 120000,
      current_property_equity_amount: -1.25,
      sqft: 2140,
      num_beds: 3,
      num_baths: 2.5,
      first_seen_date: "2009",
      last_seen_date: "2026-01-02",
    },
  ],
  work_experience: [
    {
      experience_rank: 2,
      service_experience_id: "w-1",
      work_company_name: "Northwind",
      work_company_linkedin_url: "https://linkedin.example/company/northwind",
      work_company_website: "northwind.example",
      work_company_industry: "Hospitals",
      work_company_naics_code: "622110",
      work_company_naics_description: "General Medical and Surgical Hospitals",
      work_company_sic_code: "8062",
      work_company_sic_description: "General hospitals",
      work_title: "Sr. Actuary",
      standard_work_title: "Actuary II",
      work_seniority_level: "Senior",
      work_department: "Finance",
      work_employment_type: "Full-time",
      work_status: "current",
      work_start_date: "2015-03",
      work_end_date: null,
      work_city: "Peoria",
      work_state: "Illinois",
      work_country: "United States",
    },
  ],
  education_experience: [
    {
      experience_rank: 4,
      service_experience_id: "e-1",
      institution_name: "University of Illinois",
      institution_linkedin_url: "https://linkedin.example/school/illinois",
      education_information: "With honours",
      education_level: "Bachelor",
      education_majors: ["Mathematics", "Music"],
      education_minors: ["History"],
      education_start_date: "1996",
      education_end_date: "2000-05",
    },
  ],
};

const columnsOfTable = (name: string) => tableNamed(name).columns.map((column) => column.name);

/** Cells of fields: their text, JSON for objects, a list of texts as in Postgres; `changed` has the others. */
function cellsOf(fields: object, changed: Readonly<Record<string, string | null>> = {}) {
  const cells = Object.entries(fields).map(([name, value]) => {
    if (Array.isArray(value)) return [name, `{${value.map((text) => `"${text}"`).join(",")}}`];
    return [name, value === null ? null : typeof value === "object" ? JSON.stringify(value) : String(value)];
  });
  return { ...Object.fromEntries(cells), ...changed };
}

/** Rows of a list, with the cells that differ from the text of the value or have no field. */
const rowsOf = (list: readonly object[], changed: Readonly<Record<string, string | null>> = {}) =>
  list.map((element, i) =>
    cellsOf(element, { service_pid: "p-2", position: String(i), _extra: null, ...changed }),
  );

describe.each([
  ["resolution", resolveEndpoint, resolved],
  ["email_validation", validateEmailsEndpoint, validated],
])("a result for %s", (table, endpoint, record) => {
  test("has a column for every field", () => {
    const drift = new DriftLog(endpoint.name);
    expect(nameResult(endpoint, record, null, drift)).toEqual({
      fields: cellsOf(record),
      extra: null,
      lists: {},
    });
    expect(drift.entries()).toEqual([]);
    const answers = Object.keys(record).filter((name) => name !== "record_id");
    expect(columnsOfTable(table)).toEqual(expect.arrayContaining(answers));
  });
});

describe("POST /v2/enrich", () => {
  const drift = new DriftLog("POST /v2/enrich");
  const flat = nameResult(enrichEndpoint, enriched, "p-2", drift);
  const scalars = Object.fromEntries(Object.entries(enriched).filter(([, value]) => !Array.isArray(value)));

  test("nothing of a record that holds every field of the interface is unknown or of an unexpected type", () => {
    expect(drift.entries()).toEqual([]);
    expect(flat.extra).toBeNull();
  });

  test("every scalar field has its cell", () => {
    const derived = {
      estimated_income_min: "100000",
      estimated_income_max: "124999",
      estimated_wealth_min: "250000",
      estimated_wealth_max: "499999",
    };
    expect(flat.fields).toEqual(cellsOf(scalars, derived));
  });

  test("the person's scalar fields are columns of person, the answer's of enrichment", () => {
    const { record_id: _, is_match, match_score, validation_errors, service_pid, ...person } = flat.fields;
    expect(columnsOfTable("person")).toEqual(expect.arrayContaining(["service_pid", ...Object.keys(person)]));
    expect(columnsOfTable("enrichment")).toEqual(
      expect.arrayContaining(Object.keys({ is_match, service_pid, match_score, validation_errors })),
    );
  });

  test("the elements of every list become rows, equal ranks side by side", () => {
    expect(flat.lists).toEqual({
      personal_emails: rowsOf(enriched.personal_emails, { email_type: "personal" }),
      professional_emails: rowsOf(enriched.professional_emails, { email_type: "professional" }),
      phones: rowsOf(enriched.phones),
      relatives: rowsOf(enriched.relatives),
      address_history: rowsOf(enriched.address_history, {
        is_current_owner: "true",
        purchase_on: "2009-06-01",
        purchase_precision: "month",
        first_seen_on: "2009-01-01",
        first_seen_precision: "year",
        last_seen_on: "2026-01-02",
        last_seen_precision: "day",
      }),
      work_experience: rowsOf(enriched.work_experience, {
        work_start_on: "2015-03-01",
        work_start_precision: "month",
        work_end_on: null,
        work_end_precision: null,
      }),
      education_experience: rowsOf(enriched.education_experience, {
        education_majors: '{"Mathematics","Music"}',
        education_start_on: "1996-01-01",
        education_start_precision: "year",
        education_end_on: "2000-05-01",
        education_end_precision: "month",
      }),
    });
  });

  test("every declared list flattens to the table that the contract names", () => {
    const declared = Object.entries(enrichEndpoint.result.lists).map(([name, list]) => [name, list.table]);
    expect(Object.fromEntries(declared)).toEqual(childTables);
  });
});

test("the declared record and the interface name the same fields, none more, none less", () => {
  const lists = Object.entries(enriched).filter(([, value]) => Array.isArray(value));
  const scalars = Object.keys(enriched).filter((name) => !lists.some(([list]) => list === name));
  expect(Object.keys(enrichEndpoint.result.fields)).toEqual(scalars);
  expect(Object.keys(enrichEndpoint.result.lists)).toEqual(lists.map(([name]) => name));
  expect(Object.keys(resolveEndpoint.result.fields)).toEqual(Object.keys(resolved));
  expect(Object.keys(validateEmailsEndpoint.result.fields)).toEqual(Object.keys(validated));
  const elements = Object.fromEntries(lists);
  for (const [name, list] of Object.entries(enrichEndpoint.result.lists)) {
    expect(new Set(Object.keys(list.fields))).toEqual(new Set(Object.keys(Object(elements[name])[0])));
  }
});
