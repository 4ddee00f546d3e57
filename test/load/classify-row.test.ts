import { expect, test } from "vitest";
import { castSourceKey, classifyRow, findSourceKey } from "../../src/load/lookups/explain-row.ts";
import { connect, freshDatabase } from "./bare-database.ts";
import { useContext } from "./postgres-context.ts";
import { enrichSpec, people } from "./suite/people.ts";

const context = useContext();

test("a composite key of another database is found by equal values, however they are written", async () => {
  const elsewhere = await freshDatabase();
  const there = await connect(elsewhere.url);
  await there.query(`CREATE TABLE people (tenant numeric, code char(6), first_name text, last_name text, email text, phone text,
    PRIMARY KEY (tenant, code)); INSERT INTO people VALUES (3, 'it''s', 'Ann', 'Lee', 'ann@example.com', NULL)`);
  const input = {
    ...people,
    relation: { table: ["people"] },
    key: ["tenant", "code"],
    where: "tenant > 0 -- all",
    connection: { type: "postgres", name: "crm", url: elsewhere.url },
  } as const;
  const { db } = context.warehouse;
  const find = (...key: readonly string[]) =>
    findSourceKey(db, input, { key, sourceKey: JSON.stringify(key) });
  expect(await find("3.0", "it's")).toBe('["3", "it\'s"]');
  expect(await find("3", "other")).toBe(null);
  const cast = (...key: readonly string[]) =>
    castSourceKey(db, input, { key, sourceKey: JSON.stringify(key) });
  expect(await cast("03.50", "other")).toBe('["3.5", "other"]');
  await expect(find("three", "other")).rejects.toMatchObject({ code: "bad_key" });
  const { rows } = await classifyRow(db, enrichSpec({ input }), {
    key: ["3", "it's"],
    sourceKey: '["3", "it\'s"]',
  });
  const record = '{"emails":["ann@example.com"],"first_name":"Ann","last_name":"Lee"}';
  expect(rows).toMatchObject([{ class: "never_answered", record }]);
});
