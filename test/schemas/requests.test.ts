import { expect, test } from "vitest";
import { enrichEndpoint } from "../../src/schemas/enrich.ts";
import { resolveEndpoint } from "../../src/schemas/resolve.ts";
import { validateEmailsEndpoint } from "../../src/schemas/validate-emails.ts";

// Sections 4.7 and 8 of the service's interface.
test.each([
  [resolveEndpoint, "/v1/resolve", 1000, { record_id: "1" }],
  [validateEmailsEndpoint, "/v2/validate_emails", 2000, "a@b.example"],
  [enrichEndpoint, "/v2/enrich", 500, { record_id: "1" }],
])("%#: name, path and the most records in one call", (endpoint, path, maxRecords, record) => {
  expect(endpoint).toMatchObject({ name: `POST ${path}`, path, maxRecords, method: "POST" });
  const takes = (body: object) => endpoint.request.safeParse(body).success;
  expect(takes({ records: new Array(maxRecords).fill(record) })).toBe(true);
  expect(takes({ records: new Array(maxRecords + 1).fill(record) })).toBe(false);
  expect(takes({})).toBe(false);
});

const textsOf = (names: string) => Object.fromEntries(names.split(" ").map((name) => [name, "text"]));
const lists = { emails: ["ana@home.example"], phones: ["+15550100"] };
const names = "first_name middle_name last_name full_name name_suffix";
const toEnrich = `${names} service_pid linkedin_url full_address address_line_1 address_line_2 city state zipcode`;
const conditions =
  `linkedin_url gender estimated_income_range estimated_wealth_range emails personal_email professional_email
  phone mobile_phone home_ownership_status`.split(/\s+/u);

test.each([
  ["resolve", resolveEndpoint, { record_id: "1", ...textsOf(names), ...lists }, ["city"]],
  ["enrich", enrichEndpoint, { record_id: "1", ...textsOf(toEnrich), ...lists }, ["zip"]],
])("a request of %s takes every input field of the interface and no other", (_, endpoint, record, others) => {
  const takes = (...records: readonly object[]) => endpoint.request.safeParse({ records }).success;
  expect(takes(record)).toBe(true);
  for (const other of others) expect(takes({ ...record, [other]: "text" })).toBe(false);
  for (const name of Object.keys(record)) expect(takes({ ...record, [name]: 62704 })).toBe(false);
});

const takesConditions = (fields: readonly string[]) =>
  enrichEndpoint.request.safeParse({ records: [], match_condition_fields: fields }).success;

test("match_condition_fields takes exactly the values that section 4.7 allows, and resolve no parameters", () => {
  expect(takesConditions(conditions)).toBe(true);
  for (const other of ["phones", "email", "age", "mobilePhone", ""])
    expect(takesConditions([other])).toBe(false);
  expect(resolveEndpoint.request.safeParse({ records: [], return_fields: [] }).success).toBe(false);
});
