import { describe } from "vitest";
import { testNights } from "./cases.ts";
import { names, put } from "./night.ts";

const enrich = (more: string) => ({ jobs: `{ enrich: { type: enrich, input: customers, ${more} } }` });
const ordered = { input: "order_by: id" };
const budgeted = { ...ordered, jobs: "{ one: { type: enrich, input: customers } }" };
const abc = names("Ann", "Bob", "Cid");

describe("limits of the user", () => {
  testNights([
    {
      title: "max_records_per_run caps each run, and every run goes on",
      config: { ...ordered, ...enrich("max_records_per_run: 2") },
      nights: [
        {
          edit: abc,
          sent: ["Ann", "Bob"],
          ends: "limited (max_records_per_run): 3 read, 2 sent, 1 remaining, 2 matched",
        },
        { sent: ["Cid"], ends: "3 read, 2 unchanged, 1 sent, 1 matched" },
        { ends: "3 read, 3 unchanged" },
      ],
    },
    {
      title: "a cap that is exactly enough limits nothing",
      config: enrich("max_records_per_run: 3"),
      nights: [{ edit: abc, sent: ["Ann", "Bob", "Cid"], ends: "3 read, 3 sent, 3 matched" }],
    },
    {
      title: "the lower one of --max-records and the job's cap counts",
      config: { ...ordered, ...enrich("max_records_per_run: 2") },
      nights: [
        {
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
      ],
    },
    {
      title: "--max-records 0 sends nothing and counts what is due",
      nights: [
        { edit: abc, flags: { maxRecords: 0 }, ends: "limited (max_records): 3 read, 3 remaining" },
        { sent: ["Ann", "Bob", "Cid"] },
      ],
    },
    {
      title: "order_by chooses the first rows",
      config: { input: "order_by: name DESC" },
      nights: [
        { edit: abc, flags: { maxRecords: 1 }, sent: ["Cid"], ends: "limited" },
        { edit: put(4, "Dan"), flags: { maxRecords: 1 }, sent: ["Dan"], ends: "limited" },
        { flags: { maxRecords: 1 }, sent: ["Bob"], ends: "limited" },
      ],
    },
    {
      title: "order_by ranks equal rows by their first one",
      config: ordered,
      nights: [
        { edit: names("Ann", "Bob", "Cid", "Ann"), flags: { maxRecords: 1 }, sent: ["Ann"], ends: "limited" },
        {
          edit: "UPDATE crm.customers SET id = 0 WHERE name = 'Cid'",
          flags: { maxRecords: 1 },
          sent: ["Cid"],
          ends: "limited",
        },
      ],
    },
    {
      title: "rejects before sending need no place under a cap",
      config: ordered,
      nights: [
        {
          edit: put(1, null) + put(2, "Bob") + put(3, "Cid"),
          flags: { maxRecords: 1 },
          sent: ["Bob"],
          ends: "limited (max_records): 3 read, 1 sent, 1 rejected_before_sending, 1 remaining, 1 matched, 1 rejected",
        },
      ],
    },
    {
      title: "a budget per day holds across runs, and is new the next day",
      config: { ...budgeted, more: "budgets: { enrich: { per_day: 2 } }" },
      nights: [
        {
          edit: abc,
          sent: ["Ann", "Bob"],
          ends: "limited (budget_day): 3 read, 2 sent, 1 remaining, 2 matched",
        },
        { ends: "limited (budget_day): 3 read, 2 unchanged, 1 remaining" },
        { days: 1, sent: ["Cid"] },
      ],
    },
    {
      title: "a budget per month holds across days, and is new the next month",
      config: { ...budgeted, more: "budgets: { enrich: { per_month: 2 } }" },
      nights: [
        {
          edit: abc,
          sent: ["Ann", "Bob"],
          ends: "limited (budget_month): 3 read, 2 sent, 1 remaining, 2 matched",
        },
        { ends: "limited (budget_month): 3 read, 2 unchanged, 1 remaining" },
        { days: 31, sent: ["Cid"] },
      ],
    },
    {
      title: "a budget is shared by the jobs of its type",
      config: {
        inputs: `{ customers: { table: crm.customers, key: id, order_by: id, fields: { full_name: name } },
          leads: { table: crm.leads, key: id, order_by: id, fields: { full_name: name } } }`,
        jobs: "{ one: { type: enrich, input: customers }, two: { type: enrich, input: leads } }",
        more: "budgets: { enrich: { per_day: 3 } }",
      },
      nights: [
        {
          edit: `${names("Ann", "Bob")} CREATE TABLE crm.leads (id int, name text); INSERT INTO crm.leads VALUES (1, 'Cid'), (2, 'Dan')`,
          sent: ["Ann", "Bob", "Cid"],
          ends: {
            one: "2 read, 2 sent, 2 matched",
            two: "limited (budget_day): 2 read, 1 sent, 1 remaining, 1 matched",
          },
        },
      ],
    },
    {
      title: "a budget of another type limits nothing",
      config: { more: "budgets: { resolve: { per_day: 1 } }" },
      nights: [{ edit: abc, sent: ["Ann", "Bob", "Cid"] }],
    },
    {
      title: "a budget counts what may have been billed, and gives back what wasn't",
      config: { ...budgeted, more: "budgets: { enrich: { per_day: 3 } }" },
      nights: [
        {
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
    },
    {
      title: "a budget covers each try of a call that may have been billed",
      config: { ...budgeted, more: "budgets: { enrich: { per_day: 1 } }" },
      nights: [
        {
          edit: names("Ann"),
          service: { call: () => "reply_lost" },
          sent: ["Ann"],
          ends: "limited (budget_day): 1 read, 1 sent",
        },
      ],
    },
    {
      title: "--resend stays within budgets",
      config: { ...budgeted, more: "budgets: { enrich: { per_day: 3 } }" },
      nights: [
        { edit: names("Ann", "Bob"), sent: ["Ann", "Bob"] },
        {
          flags: { resend: true },
          sent: ["Ann"],
          ends: "limited (budget_day): 2 read, 1 sent, 1 remaining, 1 matched",
        },
        { days: 1, flags: { resend: true }, sent: ["Bob"], ends: "2 read, 1 unchanged, 1 sent, 1 matched" },
      ],
    },
    {
      title: "a large due set needs the user's word after the first run",
      config: { more: "confirm_above: { records: 2, ratio: 0.5 }" },
      nights: [
        { edit: names("Ann"), flags: { yes: false }, sent: ["Ann"] },
        {
          edit: names("Ann", "Bob", "Cid", "Dan"),
          flags: { yes: false },
          ends: "limited (confirmation): 4 read, 1 unchanged, 3 remaining",
        },
        { flags: { yes: true }, sent: ["Bob", "Cid", "Dan"] },
      ],
    },
  ]);
});
