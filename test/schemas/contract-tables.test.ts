import { describe, expect, test } from "vitest";
import { tableNamed, tables } from "../../src/schemas/registry.ts";
import { contractTables, contractTypes } from "./contract-columns.ts";

const contract = Object.entries(contractTables);
const columnNames = (name: string) => tableNamed(name).columns.map((c) => c.name);

/** Type of a column by the contract. */
function contractType(tableName: string, columnName: string): string {
  const place = `${tableName}.${columnName}`;
  return Object.entries(contractTypes).find(([, places]) => places.includes(place))?.[0] ?? "text";
}

describe("each table of the contract", () => {
  test.each(contract)("%s has the contract's schema, key, columns and types", (name, table) => {
    const { key, schema, columns } = tableNamed(name);
    expect([key, schema]).toEqual([table.key, table.schema]);
    const expected = [...table.key, ...table.columns];
    // In the contract's order, keys first; further columns are allowed.
    expect(columnNames(name).filter((column) => expected.includes(column))).toEqual(expected);
    expect(columns.map((c) => `${c.name} ${c.type}`)).toEqual(
      expect.arrayContaining(expected.map((column) => `${column} ${contractType(name, column)}`)),
    );
    expect(columnNames(name).includes("_extra")).toBe(table.hasExtra);
  });

  test("is named once, and its types are those of real columns", () => {
    expect(new Set(tables.map((t) => t.name)).size).toBe(tables.length);
    const places = Object.entries(contractTables).flatMap(([name, table]) =>
      [...table.key, ...table.columns].map((column) => `${name}.${column}`),
    );
    expect(
      Object.values(contractTypes)
        .flat()
        .filter((place) => !places.includes(place)),
    ).toEqual([]);
  });
});

describe("every declared table", () => {
  const named = tables.map((table) => [table.name, table] as const);

  test.each(named)("%s has described columns with classes and names that fit every warehouse", (_, table) => {
    const names = table.columns.map((c) => c.name);
    expect(table.columns.find((c) => c.name === "_synced_at")).toMatchObject({
      type: "timestamptz",
      required: true,
    });
    expect(names.includes("_run_id")).toBe(!names.includes("run_id"));
    expect(new Set(names).size).toBe(names.length);
    for (const key of table.key) {
      expect(table.columns.find((c) => c.name === key)).toMatchObject({ required: true });
    }
    expect(table.doc).toMatch(/^[A-Z`].*\.$/su);
    for (const column of table.columns) {
      expect(`${column.name}: ${column.doc}`).toMatch(/^\w+: [A-Z`\d].*\.$/su);
      expect(["none", "indirect", "direct", "sensitive"]).toContain(column.pii);
    }
    for (const name of [table.name, ...names]) expect(name).toMatch(/^[a-z_][a-z0-9_]{0,54}$/u);
  });
});

test("no table of the ops schema has a column that names or may harm a person", () => {
  const personal = tables
    .filter((table) => table.schema === "ops")
    .flatMap((table) => table.columns.filter((c) => c.pii !== "none").map((c) => `${table.name}.${c.name}`));
  expect(personal).toEqual([]);
});

test("columns that name a person are classed as direct", () => {
  const direct = tables.flatMap((t) =>
    t.columns.filter((c) => c.pii === "direct").map((c) => `${t.name}.${c.name}`),
  );
  for (const place of [
    "resolution.source_key",
    "resolution.service_pid",
    "enrichment.last_matched_service_pid",
    "email_validation.email_address",
    "input_email.email_address",
    "person.service_pid",
    "person.full_name",
    "person.dob",
    "person.linkedin_url",
    "person_email.email_address",
    "person_phone.phone_number",
    "person_relative.relative_last_name",
    "person_address.address_line_1",
    "reject.source_key",
    "person_search_result.service_pid",
    "audience_search_member.service_pid",
    "contact_job_result.service_pid",
    "contact_job_result.full_name",
    "contact_job_result.linkedin_url",
  ]) {
    expect(direct).toContain(place);
  }
});

test("an undeclared table can't be looked up", () => {
  expect(() => tableNamed("people")).toThrow("No table people is declared.");
});
