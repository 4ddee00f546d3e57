import { globSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { tables } from "../../src/schemas/registry.ts";
import { views } from "../../src/schemas/views/all-views.ts";

interface Column {
  readonly name: string;
  readonly description: string;
  readonly config?: { readonly meta?: { readonly pii?: string } };
}
interface Properties {
  /** Omitted in files of unit tests. */
  readonly models?: readonly { readonly name: string; readonly columns: readonly Column[] }[];
  readonly snapshots: readonly { readonly config: { readonly check_cols: readonly string[] } }[];
}

// The form of properties in the package.
const propertiesOf = (file: string) => parse(readFileSync(`dbt/${file}`, "utf8")) as Properties;
/** Marts of a folder, with the properties of any file. */
const martsIn = (folder: string) =>
  globSync(`models/marts/${folder}/_*.yml`, { cwd: "dbt" })
    .toSorted()
    .flatMap((file) => propertiesOf(file).models ?? []);
const people = martsIn("people");
const reporting = martsIn("reporting");

const published = [...tables.filter(({ schema }) => schema !== "state"), ...views];
const declared = new Map(
  published.flatMap(({ name: table, columns }) => columns.map(({ name, pii }) => [`${table}__${name}`, pii])),
);
/** Columns with personal data in some table or view. */
const personal = new Set(
  published.flatMap(({ columns }) => columns.filter(({ pii }) => pii !== "none").map(({ name }) => name)),
);

describe("the dbt package", () => {
  it("describes every mart and its columns", () => {
    for (const [folder, described] of [
      ["people", people],
      ["reporting", reporting],
    ] as const) {
      const files = globSync(`models/marts/${folder}/*.sql`, { cwd: "dbt" });
      const names = files.map((file) => basename(file, ".sql"));
      expect(described.map(({ name }) => name).toSorted()).toEqual(names.toSorted());
    }
    const empty = [...people, ...reporting].flatMap(({ columns }) =>
      columns.filter(({ description }) => !description),
    );
    expect(empty).toEqual([]);
  });

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
