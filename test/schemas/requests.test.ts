import { describe, expect, test } from "vitest";
import { enrichEndpoint } from "../../src/schemas/enrich.ts";
import { resolveEndpoint } from "../../src/schemas/resolve.ts";
import { validateEmailsEndpoint } from "../../src/schemas/validate-emails.ts";

describe("limits and requests (sections 4.7 and 8)", () => {
  test.each([
    [resolveEndpoint, "POST /v1/resolve", "/v1/resolve", 1000],
    [validateEmailsEndpoint, "POST /v2/validate_emails", "/v2/validate_emails", 2000],
    [enrichEndpoint, "POST /v2/enrich", "/v2/enrich", 500],
  ])("%#: name, path and the most records in one call", (endpoint, name, path, maxRecords) => {
    expect(endpoint).toMatchObject({ name, path, maxRecords, method: "POST", billed: true });
    const records = (count: number) =>
      Array.from({ length: count }, () =>
        path === "/v2/validate_emails" ? "a@b.example" : { record_id: "1" },
      );
    expect(endpoint.request.safeParse({ records: records(maxRecords) }).success).toBe(true);
    expect(endpoint.request.safeParse({ records: records(maxRecords + 1) }).success).toBe(false);
    expect(endpoint.request.safeParse({}).success).toBe(false);
  });

  test("a resolve request takes every input field of section 2.12 and no other", () => {
    const record = {
      record_id: "1",
      first_name: "Ana",
      middle_name: "Maria",
      last_name: "Núñez",
      full_name: "Ana Núñez",
      name_suffix: "Jr.",
      emails: ["ana@home.example"],
      phones: ["+15550100"],
    };
    expect(resolveEndpoint.request.safeParse({ records: [record] }).error).toBeUndefined();
    expect(resolveEndpoint.request.safeParse({ records: [{ ...record, city: "Peoria" }] }).success).toBe(
      false,
    );
    expect(resolveEndpoint.request.safeParse({ records: [{ ...record, emails: "a@b" }] }).success).toBe(
      false,
    );
    expect(resolveEndpoint.request.safeParse({ records: [record], return_fields: [] }).success).toBe(false);
  });

  test("an enrich request takes every input field of section 2.14 and no other", () => {
    const record = {
      record_id: "1",
      service_pid: "p-1",
      linkedin_url: "https://linkedin.example/in/ana",
      first_name: "Ana",
      middle_name: "Maria",
      last_name: "Núñez",
      full_name: "Ana Núñez",
      name_suffix: "Jr.",
      emails: ["ana@home.example"],
      phones: ["+15550100"],
      full_address: "12 Elm Street, Springfield",
      address_line_1: "12 Elm Street",
      address_line_2: "Apt 3",
      city: "Springfield",
      state: "IL",
      zipcode: "62704",
    };
    expect(enrichEndpoint.request.safeParse({ records: [record] }).error).toBeUndefined();
    expect(enrichEndpoint.request.safeParse({ records: [{ ...record, zip: "62704" }] }).success).toBe(false);
    expect(enrichEndpoint.request.safeParse({ records: [{ ...record, zipcode: 62704 }] }).success).toBe(
      false,
    );
  });

  test("match_condition_fields takes exactly the values that section 4.7 allows", () => {
    const allowed = [
      "linkedin_url",
      "gender",
      "estimated_income_range",
      "estimated_wealth_range",
      "emails",
      "personal_email",
      "professional_email",
      "phone",
      "mobile_phone",
      "home_ownership_status",
    ];
    expect(
      enrichEndpoint.request.safeParse({ records: [], match_condition_fields: allowed }).error,
    ).toBeUndefined();
    for (const other of ["phones", "email", "age", "mobilePhone", ""]) {
      expect(enrichEndpoint.request.safeParse({ records: [], match_condition_fields: [other] }).success).toBe(
        false,
      );
    }
  });
});
