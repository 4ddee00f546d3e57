import { testNights } from "./cases.ts";
import { names, put } from "./night.ts";

const enrich = (more: string) => ({ jobs: `{ enrich: { type: enrich, input: customers, ${more} } }` });
const ordered = { input: "order_by: id" };
const abc = names("Ann", "Bob", "Cid");

testNights("limits of the user", {
  "the lower one of --max-records and the job's cap counts, and every run goes on": [
    {
      config: { ...ordered, ...enrich("max_records_per_run: 2") },
      edit: abc,
      flags: { maxRecords: 1 },
      sent: ["Ann"],
      ends: "limited (max_records): 3 read, 1 sent, 2 remaining, 1 matched",
    },
    {
      edit: put(4, "Dan"),
      flags: { maxRecords: 100 },
      sent: ["Bob", "Cid"],
      ends: "limited (max_records_per_run): 4 read, 1 unchanged, 2 sent, 1 remaining, 2 matched",
    },
    { sent: ["Dan"], ends: "4 read, 3 unchanged, 1 sent, 1 matched" },
  ],
  "order_by chooses the first rows": [
    {
      config: { input: "order_by: name DESC" },
      edit: abc,
      flags: { maxRecords: 1 },
      sent: ["Cid"],
      ends: "limited",
    },
    { edit: put(4, "Dan"), flags: { maxRecords: 1 }, sent: ["Dan"], ends: "limited" },
  ],
  "order_by ranks equal rows by their first one": [
    {
      config: ordered,
      edit: names("Ann", "Bob", "Cid", "Ann"),
      flags: { maxRecords: 1 },
      sent: ["Ann"],
      ends: "limited",
    },
    {
      edit: "UPDATE crm.customers SET id = 0 WHERE name = 'Cid'",
      flags: { maxRecords: 1 },
      sent: ["Cid"],
      ends: "limited",
    },
  ],
  "a budget is shared by the jobs of its type": [
    {
      config: {
        inputs: `{ customers: { table: crm.customers, key: id, order_by: id, fields: { full_name: name } },
          leads: { table: crm.leads, key: id, order_by: id, fields: { full_name: name } } }`,
        jobs: "{ one: { type: enrich, input: customers }, two: { type: enrich, input: leads } }",
        more: "budgets: { enrich: { per_day: 3 } }",
      },
      edit: `${names("Ann", "Bob")} CREATE TABLE crm.leads (id int, name text); INSERT INTO crm.leads VALUES (1, 'Cid'), (2, 'Dan')`,
      sent: ["Ann", "Bob", "Cid"],
      ends: {
        one: "2 read, 2 sent, 2 matched",
        two: "limited (budget_day): 2 read, 1 sent, 1 remaining, 1 matched",
      },
    },
  ],
  "a budget of another type limits nothing": [
    { config: { more: "budgets: { resolve: { per_day: 1 } }" }, edit: abc, sent: ["Ann", "Bob", "Cid"] },
  ],
  "a budget counts what may have been billed, and gives back what wasn't": [
    {
      config: { ...ordered, more: "budgets: { enrich: { per_day: 3 } }" },
      edit: names("Ann"),
      service: { call: () => ({ status: 403 }) },
      sent: ["Ann"],
      ends: "failed",
    },
    { service: { call: () => "reply_lost" }, sent: ["Ann", "Ann"], ends: "failed" },
    {
      edit: put(2, "Bob"),
      sent: ["Ann"],
      ends: "limited (budget_day): 2 read, 1 sent, 1 remaining, 1 matched",
    },
  ],
  "a budget covers each try of a call that may have been billed": [
    {
      config: { ...ordered, more: "budgets: { enrich: { per_day: 1 } }" },
      edit: names("Ann"),
      service: { call: () => "reply_lost" },
      sent: ["Ann"],
      ends: "limited (budget_day): 1 read, 1 sent",
    },
  ],
  "a large due set needs the user's word after the first run": [
    {
      config: { more: "confirm_above: { records: 2, ratio: 0.5 }" },
      edit: names("Ann"),
      flags: { yes: false },
      sent: ["Ann"],
    },
    {
      edit: names("Ann", "Bob", "Cid", "Dan"),
      flags: { yes: false },
      ends: "limited (confirmation): 4 read, 1 unchanged, 3 remaining",
    },
    { flags: { yes: true }, sent: ["Bob", "Cid", "Dan"] },
  ],
});
for (const [period, days] of [
  ["day", 1],
  ["month", 31],
] as const) {
  testNights("limits of the user", {
    [`a budget per ${period} holds across runs, and is new the next ${period}`]: [
      {
        config: { ...ordered, more: `budgets: { enrich: { per_${period}: 2 } }` },
        edit: abc,
        sent: ["Ann", "Bob"],
        ends: `limited (budget_${period}): 3 read, 2 sent, 1 remaining, 2 matched`,
      },
      { ends: `limited (budget_${period}): 3 read, 2 unchanged, 1 remaining` },
      { days, sent: ["Cid"] },
    ],
  });
}
