import { expect, test } from "vitest";
import { DriftLog } from "../../src/schemas/convert.ts";
import { enrichEndpoint } from "../../src/schemas/enrich.ts";
import { flattenerOf, isJsonObject, type JsonObject } from "../../src/schemas/flatten.ts";

const repeat = <T>(count: number, make: (i: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => make(i));

/** A record slightly larger than the service's average: 8 KB, 20 rows. */
function makeRecord(n: number): object {
  return {
    record_id: `r-${n}`,
    is_match: true,
    service_pid: `p-${String(n).padStart(32, "0")}`,
    match_score: 97.25,
    validation_errors: null,
    full_name: "Maria José Ünal",
    first_name: "Maria José",
    middle_name: null,
    last_name: "Ünal",
    name_suffix: null,
    gender: "Female",
    dob: "1978-04-09",
    age: 48,
    marital_status: "Married",
    service_household_id: `h-${n}`,
    service_spouse_pid: null,
    number_of_children: 2,
    is_retired: false,
    estimated_income_range: "$100,000-$124,999",
    estimated_wealth_range: "$250,000-$499,999",
    home_ownership_status: "Owned",
    has_bankruptcy_records: false,
    has_judgment_records: false,
    linkedin_url: "https://www.linkedin.example/in/maria",
    linkedin_title: "Senior Engineer",
    linkedin_industry: "Hospitals",
    linkedin_profile_pic_url: "https://media.example/maria.jpg",
    is_likely_remote_worker: true,
    facebook_url: null,
    twitter_url: null,
    personal_emails: repeat(2, (i) => ({ email_rank: i + 1, email_address: `maria.${i}@home.example` })),
    professional_emails: [{ email_rank: 1, email_address: "maria@work.example" }],
    phones: repeat(3, (i) => ({ phone_rank: i + 1, phone_type: "mobile", phone_number: `+1555010${i}` })),
    relatives: repeat(3, (i) => ({
      relative_service_pid: `p-${i}`,
      relative_first_name: "Ana",
      relative_last_name: "Ünal",
      relationship_label: "parent",
      relationship_sublabel: null,
    })),
    address_history: repeat(4, (i) => ({
      address_rank: i + 1,
      service_address_id: `a-${n}-${i}`,
      address_line_1: "4711 Maple Street",
      address_line_2: null,
      address_city: "Springfield",
      address_state: "IL",
      address_zipcode: "62704",
      address_zipcode4: "1234",
      ownership_status: "owner",
      is_current_owner: i === 0,
      purchase_date: "2009-06-01",
      purchase_price: 231500,
      estimated_current_value: 402100.55,
      estimated_rental_value: 2150.5,
      home_current_tax_liability: "4312.17",
      outstanding_loan_principal: "120000.00",
      current_property_equity_amount: 282100,
      sqft: 2140,
      num_beds: 3,
      num_baths: 2.5,
      first_seen_date: "2009-06",
      last_seen_date: "2026-01-02",
    })),
    work_experience: repeat(4, (i) => ({
      experience_rank: i + 1,
      service_experience_id: `w-${n}-${i}`,
      work_company_name: "Northwind Health Systems",
      work_company_linkedin_url: "https://www.linkedin.example/company/northwind",
      work_company_website: "northwind.example",
      work_company_industry: "Hospitals",
      work_company_naics_code: "622110",
      work_company_naics_description: "General Medical and Surgical Hospitals",
      work_company_sic_code: "8062",
      work_company_sic_description: "General hospitals",
      work_title: "Senior Engineer",
      standard_work_title: "Engineer",
      work_seniority_level: "Senior",
      work_department: "Engineering",
      work_employment_type: "Full-time",
      work_status: i === 0 ? "current" : "previous",
      work_start_date: "2015-03",
      work_end_date: null,
      work_city: "Springfield",
      work_state: "IL",
      work_country: "United States",
    })),
    education_experience: repeat(2, (i) => ({
      experience_rank: i + 1,
      service_experience_id: `e-${n}-${i}`,
      institution_name: "University of Illinois",
      institution_linkedin_url: "https://www.linkedin.example/school/illinois",
      education_information: "With honours",
      education_level: "Bachelor",
      education_majors: ["Mathematics"],
      education_minors: [],
      education_start_date: "1996",
      education_end_date: "2000",
    })),
  };
}

/** Number of rows of one flattened batch, with the person's own. */
function countRows(records: readonly JsonObject[], drift: DriftLog): number {
  const flattener = flattenerOf(enrichEndpoint.result);
  let rows = 0;
  for (const record of records) {
    const { lists } = flattener.flatten(record, String(record["service_pid"]), drift);
    rows += 1;
    for (const list of lists) rows += list?.rows.length ?? 0;
  }
  return rows;
}

test("a batch of 500 records of the usual size flattens to 20 rows each; its speed is printed", () => {
  const body = JSON.stringify(repeat(500, makeRecord));
  const drift = new DriftLog("POST /v2/enrich");
  const rates: number[] = [];
  for (let batch = 0; batch < 40; batch++) {
    const parsed: unknown = JSON.parse(body);
    const records = Array.isArray(parsed) ? parsed.filter(isJsonObject) : [];
    const startedAt = performance.now();
    expect(countRows(records, drift)).toBe(500 * 20);
    rates.push((500 / (performance.now() - startedAt)) * 1000);
  }
  expect(drift.entries()).toEqual([]);
  const median = rates.toSorted((a, b) => a - b)[rates.length / 2] ?? 0;
  const kilobytes = (body.length / 500 / 1000).toFixed(1);
  process.stdout.write(`flatten: ${Math.round(median)} records/s of ${kilobytes} KB, one core\n`);
});
