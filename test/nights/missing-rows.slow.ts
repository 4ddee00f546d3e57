import { testNights } from "./cases.ts";

const erasing = (more = "") => ({ input: `on_missing: erase${more}` });
const named = (name: string) =>
  `{ ${name}: { table: crm.customers, key: id, on_missing: erase, fields: { full_name: name } } }`;
const people = "INSERT INTO crm.customers (id, name) SELECT i, 'Ann' || i FROM generate_series(1, 20) AS i";
const remove = "DELETE FROM crm.customers WHERE id = 20";
const twenty = Array.from({ length: 20 }, (_, i) => `Ann${i + 1}`).toSorted();
const stored = "SELECT count(*) FROM enrichment";
const all = { [stored]: ["20"] };
const gone = { [stored]: ["19"], "SELECT count(*) FROM person": ["19"] };

testNights("on_missing: erase", {
  "needs three runs over at least a day": [
    { config: erasing(), edit: people, sent: twenty },
    { edit: remove, tables: all },
    { tables: all },
    { tables: all },
    { tables: all },
    { days: 1, tables: gone },
  ],
  "needs three runs, however many days pass": [
    { config: erasing(), edit: people, sent: twenty },
    { edit: remove, tables: all },
    { days: 5, tables: all },
    { days: 5, tables: gone },
  ],
  "begins to count again when the input is defined otherwise": [
    { config: erasing(), edit: people, sent: twenty },
    { edit: remove, tables: all },
    { days: 1, tables: all },
    { days: 1, config: erasing(", where: id < 100"), tables: all },
    { days: 1, tables: all },
    { days: 1, tables: gone },
  ],
  "begins to count again when a row returns for a night": [
    { config: erasing(), edit: people, sent: twenty },
    { edit: remove, tables: all },
    { days: 1, tables: all },
    { days: 1, edit: "INSERT INTO crm.customers (id, name) VALUES (20, 'Ann20')", tables: all },
    { days: 1, edit: remove, tables: all },
    { days: 1, tables: all },
    { days: 1, tables: gone },
  ],
  "erases what is stored under a former name of the input, too": [
    {
      config: { inputs: named("before"), jobs: "{ enrich: { type: enrich, input: before } }" },
      edit: people,
      sent: twenty,
    },
    {
      config: { inputs: named("after"), jobs: "{ enrich: { type: enrich, input: after } }" },
      tables: { [stored]: ["40"] },
    },
    { edit: remove, tables: { [stored]: ["40"] } },
    { days: 1, tables: { [stored]: ["40"] } },
    { days: 1, tables: { [stored]: ["38"], "SELECT count(*) FROM person": ["19"] } },
  ],
  "counts a night with several jobs once": [
    {
      config: {
        ...erasing(),
        jobs: `{ one: { type: enrich, input: customers }, two: { type: enrich, input: customers, return_fields: [phones] },
          three: { type: enrich, input: customers, return_fields: [gender] } }`,
      },
      edit: people,
      sent: "any",
    },
    { edit: remove, tables: { [stored]: ["60"] } },
    { days: 1, tables: { [stored]: ["60"] } },
    { days: 1, tables: { [stored]: ["57"] } },
  ],
});
