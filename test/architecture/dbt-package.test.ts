import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { tables } from "../../src/schemas/registry.ts";

interface Column {
  readonly name: string;
  readonly description: string;
  readonly config?: { readonly meta?: { readonly pii?: string } };
}
interface Properties {
  readonly models: readonly { readonly name: string; readonly columns: readonly Column[] }[];
  readonly snapshots: readonly { readonly config: { readonly check_cols: readonly string[] } }[];
}

// The form of properties in the package.
const propertiesOf = (file: string) => parse(readFileSync(`dbt/${file}`, "utf8")) as Properties;
const people = propertiesOf("models/marts/people/_people.yml").models;
const reporting = propertiesOf("models/marts/reporting/_reporting.yml").models;

const declared = new Map(
  tables
    .filter(({ schema }) => schema !== "state")
    .flatMap(({ name: table, columns }) => columns.map(({ name, pii }) => [`${table}__${name}`, pii])),
);
/** Columns with personal data in some table. */
const personal = new Set(
  tables.flatMap(({ columns }) => columns.filter(({ pii }) => pii !== "none").map(({ name }) => name)),
);

describe("the dbt package", () => {
  it("gives every column of a mart of people the class that its table declares", () => {
    const wrong = people.flatMap(({ name: model, columns }) =>
      columns
        .filter(({ description, config }) => {
          const source = /^\{\{ doc\('(.*)'\) \}\}$/.exec(description)?.[1];
          const pii = config?.meta?.pii;
          return pii === undefined || (source !== undefined && pii !== declared.get(source));
        })
        .map(({ name }) => `${model}.${name}`),
    );
    expect(wrong).toEqual([]);
    expect(people.flatMap(({ columns }) => columns).length).toBeGreaterThan(100);
  });

  it("has no personal column in a mart for reporting", () => {
    const columns = reporting.flatMap((model) => model.columns.map(({ name }) => name));
    expect(columns.filter((name) => personal.has(name))).toEqual([]);
    expect(columns).toContain("members");
  });

  it("compares every column of a person for the history, but the age and the time of the last change", () => {
    const columns = people.find(({ name }) => name === "dim_person")?.columns.map(({ name }) => name) ?? [];
    const compared = propertiesOf("snapshots/dim_person_history.yml").snapshots[0]?.config.check_cols ?? [];
    expect(columns.filter((name) => !compared.includes(name))).toEqual([
      "service_pid",
      "age",
      "_record_synced_at",
    ]);
    expect(compared.filter((name) => !columns.includes(name))).toEqual([]);
  });
});
