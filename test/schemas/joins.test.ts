import { expect, test } from "vitest";
import { joinsOf } from "../../src/schemas/table.ts";
import { tableNamed, tables } from "../../src/schemas/registry.ts";
import { views } from "../../src/schemas/views/all-views.ts";

const docOf = (table: string, column: string) =>
  [...tables, ...views].find(({ name }) => name === table)?.columns.find(({ name }) => name === column)?.doc;

const keyOf = (name: string) => (name === "identity_link" ? ["source", "source_key"] : tableNamed(name).key);

test("every join leads to the whole key of a table, or of identity_link, with columns of the same types", () => {
  const relations = [...tables, ...views];
  const typeOf = (name: string, column: string) =>
    relations.find((relation) => relation.name === name)?.columns.find((c) => c.name === column)?.type;
  let count = 0;
  for (const relation of relations) {
    for (const { columns, to, toColumns } of joinsOf(relation)) {
      count += 1;
      expect([relation.name, toColumns.toSorted()]).toEqual([relation.name, keyOf(to).toSorted()]);
      expect(columns.map((column) => typeOf(relation.name, column))).toEqual(
        toColumns.map((column) => typeOf(to, column)),
      );
    }
  }
  expect(count).toBeGreaterThan(35);
});

test("every child table joins to its parent", () => {
  const children = tables.filter(({ parent }) => parent !== null);
  expect(children.length).toBeGreaterThan(6);
  for (const child of children) expect(joinsOf(child).map(({ to }) => to)).toContain(child.parent);
});

test("a column's description ends with what it joins to", () => {
  expect(docOf("person_email", "service_pid")).toBe("PID of the person. Joins to person.service_pid.");
  expect(docOf("identity_link", "service_pid")).toBe("PID of the match. Joins to person.service_pid.");
  expect(docOf("audience_search_member", "segment_id")).toBe(
    "ID of the search and of its segment. Joins to audience_search.segment_id.",
  );
  expect(docOf("segment_death_signal", "obituary_id")).toBe(
    "Stable ID of the obituary. Joins to death_signal, together with service_pid.",
  );
});

test("a key joins to no other table, nor does the tombstone of a person", () => {
  expect(docOf("person", "service_pid")).toBe("PID of the person.");
  expect(docOf("segment", "segment_id")).toBe("ID of the segment.");
  expect(joinsOf(tableNamed("tombstone"))).toEqual([]);
});
