import { describe, expect, test } from "vitest";
import { tableNamed, tables } from "../../src/schemas/registry.ts";
import { joinsOf, type NamesPeople, type Table } from "../../src/schemas/table.ts";
import { views } from "../../src/schemas/views/all-views.ts";

// test/load/postgres-tables.test.ts holds that the migrations make exactly these tables.

const keyOf = (name: string) => (name === "identity_link" ? ["source", "source_key"] : tableNamed(name).key);

function namingOf({ people }: Table): NamesPeople {
  return people === null || typeof people === "string" ? {} : people;
}

describe.each(tables.map((table) => [table.name, table] as const))("%s", (_, table) => {
  const names = table.columns.map(({ name }) => name);

  test("has described columns with names that fit every warehouse, and the time of the last change", () => {
    expect(table.columns).toContainEqual(
      expect.objectContaining({ name: "_synced_at", type: "timestamptz", required: true }),
    );
    expect(names.includes("_run_id")).toBe(!names.includes("run_id"));
    expect(new Set(names).size).toBe(names.length);
    for (const { name, doc, required } of table.columns) {
      expect(`${name}: ${doc}`).toMatch(/^\w+: [A-Z`\d].*\.$/su);
      expect(required === true || !table.key.includes(name)).toBe(true);
    }
    for (const name of [table.name, ...names]) expect(name).toMatch(/^[a-z_][a-z0-9_]{0,54}$/u);
    expect(names).toEqual(expect.arrayContaining([...table.key]));
  });

  // An erasure follows only this declaration.
  test("declares the columns that name people, or that there are none", () => {
    expect(table.people).not.toBeNull();
    const { pids = [], emails = [], clears = [], isOfInputRow, isListOfPerson } = namingOf(table);
    const naming = [...pids, ...emails, ...clears, ...(isOfInputRow ? ["source", "source_key"] : [])];
    expect(names).toEqual(expect.arrayContaining(naming));
    expect(isListOfPerson && table.key[0]).toBe(isListOfPerson && "service_pid");
    const telling = table.columns.filter(
      ({ name, type }) => type === "text" && /(^|_)pids?$|^email_address$|^source_key$/u.test(name),
    );
    const declared = table.people === "kept" ? names : naming;
    expect(declared).toEqual(expect.arrayContaining(telling.map(({ name }) => name)));
  });
});

test("no table of the ops schema names a person, or has a column that may", () => {
  const ops = tables.filter(({ schema }) => schema === "ops");
  expect(ops.filter(({ people }) => people !== "nobody")).toEqual([]);
  expect(ops.flatMap(({ columns }) => columns.filter(({ pii }) => pii !== "none"))).toEqual([]);
});

test("columns that name a person are classed as direct", () => {
  const telling =
    /pid$|^email_address$|^source_key$|_name$|^dob$|linkedin_url$|^phone_number$|^address_line_/u;
  const other = /^(?:work|institution|signal|matched|search|table)_/u;
  const found = tables
    .filter(({ schema }) => schema === "data")
    .flatMap(({ columns }) => columns)
    .filter(({ name }) => telling.test(name) && !other.test(name));
  expect(found.length).toBeGreaterThan(40);
  const classes = Map.groupBy(found, ({ pii }) => pii);
  expect([...classes.keys()].filter((pii) => pii !== "direct")).toEqual(["indirect"]);
  expect(classes.get("indirect")?.map(({ name }) => name)).toEqual(["service_spouse_pid"]);
});

test("every join leads to the whole key of a table, or of identity_link, with columns of the same types", () => {
  const relations = [...tables, ...views];
  const typeOf = (name: string, column: string) =>
    relations.find((relation) => relation.name === name)?.columns.find((c) => c.name === column)?.type;
  const joins = relations.flatMap(({ name, ...rest }) =>
    joinsOf({ name, ...rest }).map((join) => ({ name, ...join })),
  );
  for (const { name, columns, to, toColumns } of joins) {
    expect([name, toColumns.toSorted()]).toEqual([name, keyOf(to).toSorted()]);
    expect(columns.map((column) => typeOf(name, column))).toEqual(
      toColumns.map((column) => typeOf(to, column)),
    );
  }
  expect(joins.length).toBeGreaterThan(35);
  const children = tables.filter(({ parent }) => parent !== null);
  expect(children.length).toBeGreaterThan(6);
  for (const child of children) expect(joinsOf(child).map(({ to }) => to)).toContain(child.parent);
  expect(joinsOf(tableNamed("tombstone"))).toEqual([]);
});
