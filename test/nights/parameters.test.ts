import { testNights } from "./cases.ts";
import { names, put } from "./night.ts";

const enrich = (more: string) => ({ jobs: `{ enrich: { type: enrich, input: customers${more} } }` });
const phones = enrich(", return_fields: [phones]");
const without = {
  inputs: "{ customers: { table: crm.customers, key: id, fields: { full_name: name } } }",
};

testNights("changed parameters", {
  "buy nothing: the run asks": [
    { edit: names("Ann", "Bob"), sent: ["Ann", "Bob"] },
    { config: phones, ends: "limited (parameters_changed): 2 read, 2 remaining" },
    { ends: "limited" },
    { config: {}, ends: "2 read, 2 unchanged" },
  ],
  "with resend send every row again, once": [
    { edit: names("Ann", "Bob"), sent: ["Ann", "Bob"] },
    {
      config: phones,
      flags: { acceptParameters: "resend" },
      sent: ["Ann", "Bob"],
      ends: "2 read, 2 sent, 2 matched",
    },
    { ends: "2 read, 2 unchanged" },
  ],
  "with keep send nothing, now and later": [
    { edit: names("Ann", "Bob"), sent: ["Ann", "Bob"] },
    { config: phones, flags: { acceptParameters: "keep" }, ends: "2 read, 2 unchanged" },
    { ends: "2 read, 2 unchanged" },
    { edit: put(1, "Eve"), sent: ["Eve"] },
  ],
  "with keep still send what an earlier run left, and what was refused": [
    { edit: names("Ann"), sent: ["Ann"] },
    { edit: put(2, "Poison"), sent: ["Poison"] },
    { edit: put(3, "Bob"), flags: { maxRecords: 0 }, ends: "limited" },
    { config: phones, flags: { acceptParameters: "keep" }, sent: ["Bob", "Bob", "Poison"] },
    { ends: "3 read, 3 unchanged" },
  ],
  "ask about include_premium_fields and match_condition_fields": [
    { edit: names("Ann"), sent: ["Ann"] },
    { config: enrich(", include_premium_fields: true"), ends: "limited" },
    { config: enrich(", match_condition_fields: [emails]"), ends: "limited" },
    { config: enrich(", return_fields: [], match_condition_fields: []"), ends: "1 read, 1 unchanged" },
  ],
});

testNights("a changed mapping", {
  "buys nothing: the run asks": [
    {
      edit: put(1, "Ann", { city: "Rome" }) + put(2, "Bob", { city: "Oslo" }),
      sent: ["Ann Rome", "Bob Oslo"],
    },
    { config: without, ends: "limited" },
    { config: {}, ends: "2 read, 2 unchanged" },
  ],
  "with resend sends every row with its new content": [
    { edit: put(1, "Ann", { city: "Rome" }), sent: ["Ann Rome"] },
    { config: without, flags: { acceptParameters: "resend" }, sent: ["Ann"] },
    { ends: "1 read, 1 unchanged" },
  ],
  "with keep sends nothing until a row changes in a mapped column": [
    { edit: put(1, "Ann", { city: "Rome" }) + put(2, "Bob"), sent: ["Ann Rome", "Bob"] },
    { config: without, flags: { acceptParameters: "keep" }, ends: "2 read, 2 unchanged" },
    { edit: put(1, "Ann", { city: "Oslo" }), ends: "2 read, 2 unchanged" },
    { edit: put(2, "Eve"), sent: ["Eve"] },
  ],
});
