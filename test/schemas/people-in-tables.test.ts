import { describe, expect, test } from "vitest";
import { tables } from "../../src/schemas/registry.ts";
import type { NamesPeople, Table } from "../../src/schemas/table.ts";

const named = tables.map((table) => [table.name, table] as const);

function namingOf({ people }: Table): NamesPeople {
  return people === null || typeof people === "string" ? {} : people;
}

function columnsOf(table: Table): readonly string[] {
  const { pids = [], emails = [], clears = [], isOfInputRow } = namingOf(table);
  return [...pids, ...emails, ...clears, ...(isOfInputRow ? ["source", "source_key"] : [])];
}

describe("how tables name people", () => {
  // An erasure follows only a table's declaration (src/schemas/table.ts, NamesPeople).
  test.each(named)("%s declares how it does, or that it names no person", (_, table) => {
    expect(table.people).not.toBeNull();
  });

  test("the ops schema names no person", () => {
    const naming = tables.filter(({ schema, people }) => schema === "ops" && people !== "nobody");
    expect(naming.map(({ name }) => name)).toEqual([]);
  });

  test.each(named)("%s has the columns that it speaks of", (_, table) => {
    const columns = table.columns.map(({ name }) => name);
    expect(columns).toEqual(expect.arrayContaining([...columnsOf(table)]));
  });

  test.each(named)("%s leaves out no column that holds a PID, an address or a row's key", (_, table) => {
    if (table.people === "kept") return;
    const telling = table.columns
      .filter(({ name, type }) => type === "text" && /(^|_)pids?$|^email_address$|^source_key$/u.test(name))
      .map(({ name }) => name);
    expect(columnsOf(table)).toEqual(expect.arrayContaining(telling));
  });

  test("lists of a person are found by the person's PID", () => {
    const lists = tables.filter((table) => namingOf(table).isListOfPerson);
    expect(lists.map(({ name }) => name)).toContain("person_relative");
    for (const list of lists) expect(list.key[0]).toBe("service_pid");
  });
});
