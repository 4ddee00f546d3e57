import * as fc from "../support/fast-check.ts";

/** Form of a field in an answer, and its value as read from the cell. */
export type Wire = "text" | "integer" | "numeric" | "boolean" | "date" | "texts";

const fields = (wire: Wire, names: string): Record<string, Wire> =>
  Object.fromEntries(names.split(/\s+/u).map((name) => [name, wire]));

/** Scalar fields of an enriched record (section 2.14) with their forms; `validation_errors` is separate. */
export const scalarWires: Readonly<Record<string, Wire>> = {
  ...fields(
    "text",
    `record_id service_pid full_name first_name middle_name last_name name_suffix gender marital_status service_household_id
     service_spouse_pid estimated_income_range estimated_wealth_range home_ownership_status linkedin_url linkedin_title
     linkedin_industry linkedin_profile_pic_url facebook_url twitter_url`,
  ),
  ...fields(
    "boolean",
    "is_match is_retired has_bankruptcy_records has_judgment_records is_likely_remote_worker",
  ),
  ...fields("integer", "age number_of_children"),
  ...fields("numeric", "match_score"),
  ...fields("date", "dob"),
};

const email = { ...fields("integer", "email_rank"), ...fields("text", "email_address") };

/** Scalar fields of each list's elements (section 2.14). */
export const listWires: Readonly<Record<string, Readonly<Record<string, Wire>>>> = {
  personal_emails: email,
  professional_emails: email,
  phones: { ...fields("integer", "phone_rank"), ...fields("text", "phone_type phone_number") },
  relatives: fields(
    "text",
    "relative_service_pid relative_first_name relative_last_name relationship_label relationship_sublabel",
  ),
  address_history: {
    ...fields("integer", "address_rank"),
    ...fields(
      "text",
      `service_address_id address_line_1 address_line_2 address_city address_state address_zipcode address_zipcode4
       ownership_status purchase_date first_seen_date last_seen_date`,
    ),
    ...fields("boolean", "is_current_owner"),
    ...fields(
      "numeric",
      `purchase_price estimated_current_value estimated_rental_value home_current_tax_liability outstanding_loan_principal
       current_property_equity_amount sqft num_beds num_baths`,
    ),
  },
  work_experience: {
    ...fields("integer", "experience_rank"),
    ...fields(
      "text",
      `service_experience_id work_company_name work_company_linkedin_url work_company_website work_company_industry
       work_company_naics_code work_company_naics_description work_company_sic_code work_company_sic_description work_title
       standard_work_title work_seniority_level work_department work_employment_type work_status work_start_date
       work_end_date work_city work_state work_country`,
    ),
  },
  education_experience: {
    ...fields("integer", "experience_rank"),
    ...fields(
      "text",
      `service_experience_id institution_name institution_linkedin_url education_information education_level
       education_start_date education_end_date`,
    ),
    ...fields("texts", "education_majors education_minors"),
  },
};

/** Names of all fields of a record or of a list element in the interface. */
export const declaredNames: readonly string[] = [
  ...Object.keys(scalarWires),
  "validation_errors",
  ...Object.keys(listWires),
  ...Object.values(listWires).flatMap((wires) => Object.keys(wires)),
];

const anyText = fc.string({ unit: "binary", maxLength: 12 });
const wireValues: Readonly<Record<Wire, fc.Arbitrary<unknown>>> = {
  text: anyText,
  integer: fc.oneof(fc.integer(), fc.maxSafeInteger()).map((n) => n + 0),
  numeric: fc
    .oneof(fc.integer(), fc.double({ noNaN: true, min: -1e15, max: 1e15 }))
    // At most 20 digits after the point; -0 is 0.
    .map((n) => Number(n.toFixed(6)) + 0),
  boolean: fc.boolean(),
  texts: fc.array(anyText, { maxLength: 3 }),
  date: fc
    .date({ min: new Date("1000-01-01"), max: new Date("2999-12-31"), noInvalidDate: true })
    .map((d) => d.toISOString().slice(0, 10)),
};

/** Names outside the interface, including awkward ones. */
const unknownName = fc
  .oneof(fc.constantFrom("__proto__", "constructor", "new_field", "0", ""), fc.string({ maxLength: 8 }))
  .filter((name) => !declaredNames.includes(name));
const unknownFields = fc.oneof(
  { weight: 4, arbitrary: fc.constant<[string, unknown][]>([]) },
  {
    weight: 1,
    arbitrary: fc.uniqueArray(fc.tuple(unknownName, fc.jsonValue({ maxDepth: 2 })), {
      maxLength: 2,
      selector: ([name]) => name,
    }),
  },
);

const nullable = (arbitrary: fc.Arbitrary<unknown>) => fc.option(arbitrary, { nil: null, freq: 4 });

function objectOf(
  wires: Readonly<Record<string, Wire>>,
  further: Readonly<Record<string, fc.Arbitrary<unknown>>> = {},
): fc.Arbitrary<Record<string, unknown>> {
  const declared = Object.entries(wires).map(([name, wire]) => [name, nullable(wireValues[wire])] as const);
  const model = { ...Object.fromEntries(declared), ...further };
  return fc
    .tuple(fc.record(model, { requiredKeys: [] }), unknownFields)
    .map(([object, unknown]) => Object.fromEntries([...Object.entries(object), ...unknown]));
}

const lists = Object.entries(listWires).map(
  ([name, wires]) => [name, nullable(fc.array(objectOf(wires), { maxLength: 4 }))] as const,
);

/** A valid enriched record with any field absent or null, sometimes with unknown fields. */
export const validRecord: fc.Arbitrary<Record<string, unknown>> = objectOf(scalarWires, {
  validation_errors: nullable(fc.dictionary(anyText, fc.jsonValue({ maxDepth: 2 }), { maxKeys: 2 })),
  ...Object.fromEntries(lists),
});

/** Any JSON object; its keys are mostly those of the interface, its values mostly of unexpected types. */
export const hostileRecord: fc.Arbitrary<Record<string, unknown>> = fc
  .array(
    fc.tuple(
      fc.oneof(fc.constantFrom(...declaredNames), fc.string({ maxLength: 5 })),
      fc.oneof(
        fc.jsonValue(),
        fc.array(fc.dictionary(fc.constantFrom(...declaredNames), fc.jsonValue(), { maxKeys: 6 }), {
          maxLength: 4,
        }),
      ),
    ),
    { maxLength: 15 },
  )
  .map((entries) => Object.fromEntries(entries));
