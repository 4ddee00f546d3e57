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
  test.each(contract)("%s has the contract's key", (name, table) => {
    expect(tableNamed(name).key).toEqual(table.key);
  });

  test.each(contract)("%s has the contract's columns, in its order, keys first", (name, table) => {
    const expected = [...table.key, ...table.columns];
    expect(columnNames(name).filter((column) => expected.includes(column))).toEqual(expected);
  });

  test.each(contract)("%s has the contract's types", (name, table) => {
    const expected = [...table.key, ...table.columns].map(
      (column) => `${column} ${contractType(name, column)}`,
    );
    const types = tableNamed(name).columns.map((c) => `${c.name} ${c.type}`);
    expect(types).toEqual(expect.arrayContaining(expected));
  });

  test.each(contract)("%s lives in the contract's schema", (name, table) => {
    expect(tableNamed(name).schema).toBe(table.schema);
  });

  test.each(contract)("%s has _extra where its rows come from an object of the interface", (name, table) => {
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

  test.each(named)("%s says when a row last changed, and by which run", (_, table) => {
    const names = table.columns.map((c) => c.name);
    expect(table.columns.find((c) => c.name === "_synced_at")).toMatchObject({
      type: "timestamptz",
      required: true,
    });
    expect(names.includes("_run_id")).toBe(!names.includes("run_id"));
  });

  test.each(named)("%s has each column once, its key among them and never null", (_, table) => {
    const names = table.columns.map((c) => c.name);
    expect(new Set(names).size).toBe(names.length);
    for (const key of table.key)
      expect(table.columns.find((c) => c.name === key)).toMatchObject({ required: true });
  });

  test.each(named)("%s and its columns are described by sentences and have a class", (_, table) => {
    expect(table.doc).toMatch(/^[A-Z`].*\.$/su);
    for (const column of table.columns) {
      expect(`${column.name}: ${column.doc}`).toMatch(/^\w+: [A-Z`\d].*\.$/su);
      expect(["none", "indirect", "direct", "sensitive"]).toContain(column.pii);
    }
  });

  test.each(named)("%s has names that fit every warehouse", (_, table) => {
    for (const name of [table.name, ...table.columns.map((c) => c.name)]) {
      expect(name).toMatch(/^[a-z_][a-z0-9_]{0,54}$/u);
    }
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
