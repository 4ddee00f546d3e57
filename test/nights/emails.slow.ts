import { testNights } from "./cases.ts";
import { names, put } from "./night.ts";
import { dropping, invalid, listed, validate } from "./validation.ts";

testNights("validate_emails", {
  "sends addresses as they stand, other spellings are other addresses": [
    {
      config: validate(),
      edit: put(1, "Ann", { email: "A@x", work_email: " a@x" }) + put(2, "Bob", { email: "a@x" }),
      sent: [" a@x", "A@x", "a@x"],
      tables: { "SELECT email_address FROM email_validation": [" a@x", "A@x", "a@x"] },
    },
  ],
  "with normalize: true spellings are one address": [
    {
      config: { ...validate(), input: "normalize: true" },
      edit:
        put(1, "Ann", { email: "A@X.org", work_email: " a@x.org" }) + put(2, "Bob", { email: "no address" }),
      sent: ["a@x.org"],
      ends: "2 read, 1 duplicate, 1 sent, 1 matched",
    },
  ],
  "keeps the addresses of rows that left, and their answers": [
    { config: validate(), edit: put(1, "Ann", { email: "a@x" }), sent: ["a@x"] },
    {
      edit: "DELETE FROM crm.customers",
      ends: "nothing",
      tables: { [listed]: ["1|0|a@x"], "SELECT email_address FROM email_validation": ["a@x"] },
    },
    {
      edit: put(7, "Bob", { email: "a@x" }),
      ends: "1 read, 1 unchanged",
      tables: { [listed]: ["1|0|a@x", "7|0|a@x"] },
    },
  ],
  "under a cap sends the addresses of the first rows": [
    {
      config: validate(),
      edit: put(2, "Bob", { email: "b@x" }) + put(1, "Ann", { email: "a@x" }),
      flags: { maxRecords: 1 },
      sent: ["a@x"],
      ends: "limited (max_records): 2 read, 1 sent, 1 remaining, 1 matched",
    },
    { sent: ["b@x"] },
  ],
  "--resend starts over where only an address that left was not sent again": [
    {
      config: validate(),
      edit: put(1, "Ann", { email: "a@x" }) + put(2, "Bob", { email: "b@x" }),
      sent: ["a@x", "b@x"],
    },
    { edit: "DELETE FROM crm.customers WHERE id = 1;", flags: { resend: true }, sent: ["b@x"] },
    { edit: put(1, "Ann", { email: "a@x" }), flags: { maxRecords: 0 }, ends: "limited" },
    { edit: "DELETE FROM crm.customers WHERE id = 1;", ends: "1 read, 1 unchanged" },
    { flags: { resend: true }, sent: ["b@x"] },
  ],
});

testNights("valid_emails_from", {
  "leaves them out of an array, too": [
    {
      config: {
        ...dropping,
        inputs: `{ customers: { sql: "SELECT id, name, ARRAY[email, work_email] AS emails FROM crm.customers", key: id,
          fields: { full_name: name, emails: [emails] } } }`,
      },
      edit: put(1, "Ann", { email: "bad@x", work_email: "a@x" }),
      sent: { validate_emails: ["a@x", "bad@x"], enrich: ["Ann a@x"] },
    },
  ],
  "a newly invalid address makes nothing due, and is left out the next time": [
    {
      config: dropping,
      edit: put(1, "Ann", { email: "a@x" }),
      sent: { validate_emails: ["a@x"], enrich: ["Ann a@x"] },
    },
    {
      days: 30,
      service: invalid,
      sent: { validate_emails: ["a@x"] },
      ends: { validate: "1 read, 1 sent, 1 matched", enrich: "1 read, 1 unchanged" },
    },
    { edit: put(1, "Ann", { email: "a@x", city: "Rome" }), sent: { enrich: ["Ann Rome"] } },
  ],
  "rows that differ only in an invalid address are equal": [
    {
      config: dropping,
      edit: put(1, "Ann", { email: "bad1@x" }) + put(2, "Ann", { email: "bad2@x" }),
      sent: { validate_emails: ["bad1@x", "bad2@x"], enrich: ["Ann"] },
      ends: { validate: "2 read, 2 sent, 2 matched", enrich: "2 read, 1 duplicate, 1 sent, 1 matched" },
    },
  ],
  "doesn't hold back rows whose addresses aren't validated": [
    { config: dropping, edit: names("Ann"), flags: { jobs: ["enrich"] }, sent: { enrich: ["Ann"] } },
  ],
});
