import { describe, expect, test } from "vitest";
import { DriftLog } from "../../src/schemas/convert.ts";
import { enrichEndpoint } from "../../src/schemas/enrich.ts";
import { zodOf } from "../../src/schemas/flatten.ts";
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

function columnsOfTable(name: string): readonly string[] {
  return tableNamed(name).columns.map((c) => c.name);
}

describe("POST /v1/resolve", () => {
  test("every field of a result has its column", () => {
    const drift = new DriftLog("POST /v1/resolve");
    expect(nameResult(resolveEndpoint, resolved, null, drift)).toEqual({
      fields: {
        record_id: "r-1",
        is_match: "true",
        service_pid: "p-1",
        match_score: "87.53",
        is_resolvable_record: "false",
        validation_errors: '{"emails":["malformed"]}',
      },
      extra: null,
      lists: {},
    });
    expect(drift.entries()).toEqual([]);
    const { record_id: _, ...answers } = resolved;
    expect(columnsOfTable("resolution")).toEqual(expect.arrayContaining(Object.keys(answers)));
  });
});

describe("POST /v2/validate_emails", () => {
  test("every field of a result has its column", () => {
    const drift = new DriftLog("POST /v2/validate_emails");
    expect(nameResult(validateEmailsEndpoint, validated, null, drift)).toEqual({
      fields: {
        email_address: "Ana@example.com",
        is_match: "true",
        email_validation_status: "valid",
        email_last_seen: "2026-03-04T05:06:07.123456",
      },
      extra: null,
      lists: {},
    });
    expect(drift.entries()).toEqual([]);
    expect(columnsOfTable("email_validation")).toEqual(expect.arrayContaining(Object.keys(validated)));
  });
});

describe("POST /v2/enrich", () => {
  const drift = new DriftLog("POST /v2/enrich");
  const flat = nameResult(enrichEndpoint, enriched, "p-2", drift);

  test("nothing of a record that holds every field of the interface is unknown or of an unexpected type", () => {
    expect(drift.entries()).toEqual([]);
    expect(flat.extra).toBeNull();
  });

  test("every scalar field has its cell", () => {
    expect(flat.fields).toEqual({
      record_id: "r-2",
      is_match: "true",
      service_pid: "p-2",
      match_score: "121.5",
      validation_errors: null,
      full_name: "Ana Maria Núñez Jr.",
      first_name: "Ana",
      middle_name: "Maria",
      last_name: "Núñez",
      name_suffix: "Jr.",
      gender: "Female",
      dob: "1978-04-09",
      age: "48",
      marital_status: "Married",
      service_household_id: "h-1",
      service_spouse_pid: "p-3",
      number_of_children: "2",
      is_retired: "false",
      estimated_income_range: "$100,000-$124,999",
      estimated_wealth_range: "$250,000-$499,999",
      estimated_income_min: "100000",
      estimated_income_max: "124999",
      estimated_wealth_min: "250000",
      estimated_wealth_max: "499999",
      home_ownership_status: "Owned",
      has_bankruptcy_records: "false",
      has_judgment_records: "true",
      linkedin_url: "https://linkedin.example/in/ana",
      linkedin_title: "Actuary",
      linkedin_industry: "Insurance",
      linkedin_profile_pic_url: "https://linkedin.example/pic/ana",
      is_likely_remote_worker: "true",
      facebook_url: "https://facebook.example/ana",
      twitter_url: "https://twitter.example/ana",
    });
  });

  test("the person's scalar fields are columns of person, the answer's of enrichment", () => {
    const { record_id: _, is_match, match_score, validation_errors, service_pid, ...person } = flat.fields;
    expect(columnsOfTable("person")).toEqual(expect.arrayContaining(["service_pid", ...Object.keys(person)]));
    expect(columnsOfTable("enrichment")).toEqual(
      expect.arrayContaining(Object.keys({ is_match, service_pid, match_score, validation_errors })),
    );
  });

  test("e-mail addresses become rows of person_email, equal ranks side by side", () => {
    expect(flat.lists["personal_emails"]).toEqual([
      {
        service_pid: "p-2",
        email_type: "personal",
        position: "0",
        email_rank: "1",
        email_address: "ana@home.example",
        _extra: null,
      },
      {
        service_pid: "p-2",
        email_type: "personal",
        position: "1",
        email_rank: "1",
        email_address: "ana.n@home.example",
        _extra: null,
      },
    ]);
    expect(flat.lists["professional_emails"]).toEqual([
      {
        service_pid: "p-2",
        email_type: "professional",
        position: "0",
        email_rank: "1",
        email_address: "ana@work.example",
        _extra: null,
      },
    ]);
  });

  test("phones and relatives become rows", () => {
    expect(flat.lists["phones"]).toEqual([
      {
        service_pid: "p-2",
        position: "0",
        phone_rank: "3",
        phone_type: "mobile",
        phone_number: "+15550100",
        _extra: null,
      },
    ]);
    expect(flat.lists["relatives"]).toEqual([
      {
        service_pid: "p-2",
        position: "0",
        relative_service_pid: "p-4",
        relative_first_name: "Luz",
        relative_last_name: "Prado",
        relationship_label: "parent",
        relationship_sublabel: null,
        _extra: null,
      },
    ]);
  });

  test("addresses become rows", () => {
    expect(flat.lists["address_history"]).toEqual([
      {
        service_pid: "p-2",
        position: "0",
        address_rank: "1",
        service_address_id: "a-1",
        address_line_1: "12 Elm Street",
        address_line_2: "Apt 3",
        address_city: "Springfield",
        address_state: "IL",
        address_zipcode: "62704",
        address_zipcode4: "0017",
        ownership_status: "owner",
        is_current_owner: "true",
        purchase_date: "2009-06",
        purchase_price: "231500.00",
        estimated_current_value: "402100.55",
        estimated_rental_value: "2150.5",
        home_current_tax_liability: "4312.17",
        outstanding_loan_principal: "120000",
        current_property_equity_amount: "-1.25",
        sqft: "2140",
        num_beds: "3",
        num_baths: "2.5",
        first_seen_date: "2009",
        last_seen_date: "2026-01-02",
        purchase_on: "2009-06-01",
        purchase_precision: "month",
        first_seen_on: "2009-01-01",
        first_seen_precision: "year",
        last_seen_on: "2026-01-02",
        last_seen_precision: "day",
        _extra: null,
      },
    ]);
  });

  test("jobs become rows", () => {
    expect(flat.lists["work_experience"]).toEqual([
      {
        service_pid: "p-2",
        position: "0",
        experience_rank: "2",
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
        work_start_on: "2015-03-01",
        work_start_precision: "month",
        work_end_on: null,
        work_end_precision: null,
        work_city: "Peoria",
        work_state: "Illinois",
        work_country: "United States",
        _extra: null,
      },
    ]);
  });

  test("studies become rows, with their majors and minors as lists", () => {
    expect(flat.lists["education_experience"]).toEqual([
      {
        service_pid: "p-2",
        position: "0",
        experience_rank: "4",
        service_experience_id: "e-1",
        institution_name: "University of Illinois",
        institution_linkedin_url: "https://linkedin.example/school/illinois",
        education_information: "With honours",
        education_level: "Bachelor",
        education_start_date: "1996",
        education_end_date: "2000-05",
        education_start_on: "1996-01-01",
        education_start_precision: "year",
        education_end_on: "2000-05-01",
        education_end_precision: "month",
        education_majors: '{"Mathematics","Music"}',
        education_minors: '{"History"}',
        _extra: null,
      },
    ]);
  });

  test("every declared list flattens to the table that the contract names", () => {
    const declared = Object.entries(enrichEndpoint.result.lists).map(([name, list]) => [name, list.table]);
    expect(Object.fromEntries(declared)).toEqual(childTables);
  });
});

describe("the declared record and the interface", () => {
  test("name the same fields, none more, none less", () => {
    const lists = Object.entries(enriched).filter(([, value]) => Array.isArray(value));
    const scalars = Object.keys(enriched).filter((name) => !lists.some(([list]) => list === name));
    expect(Object.keys(enrichEndpoint.result.fields)).toEqual(scalars);
    expect(Object.keys(enrichEndpoint.result.lists)).toEqual(lists.map(([name]) => name));
    expect(Object.keys(resolveEndpoint.result.fields)).toEqual(Object.keys(resolved));
    expect(Object.keys(validateEmailsEndpoint.result.fields)).toEqual(Object.keys(validated));
    const elements: Readonly<Record<string, readonly object[]>> = {
      personal_emails: enriched.personal_emails,
      professional_emails: enriched.professional_emails,
      phones: enriched.phones,
      relatives: enriched.relatives,
      address_history: enriched.address_history,
      work_experience: enriched.work_experience,
      education_experience: enriched.education_experience,
    };
    for (const [name, list] of Object.entries(enrichEndpoint.result.lists)) {
      expect(new Set(Object.keys(list.fields))).toEqual(new Set(Object.keys(elements[name]?.[0] ?? {})));
    }
  });

  test.each([
    ["resolve", resolveEndpoint, resolved],
    ["validate_emails", validateEmailsEndpoint, validated],
    ["enrich", enrichEndpoint, enriched],
  ])("the zod schema of %s takes the record", (_, endpoint, record) => {
    expect(zodOf(endpoint.result).safeParse(record).error).toBeUndefined();
  });
});
