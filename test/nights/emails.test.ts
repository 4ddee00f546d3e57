import { testNights } from "./cases.ts";
import { names, put } from "./night.ts";
import type { Script } from "./scripted-service.ts";

const validate = (more = "") => ({
  jobs: `{ validate: { type: validate_emails, input: customers${more} } }`,
  input: "order_by: id",
});
const dropping = {
  jobs: `{ validate: { type: validate_emails, input: customers, refresh_after: 30d },
    enrich: { type: enrich, input: customers, valid_emails_from: validate } }`,
};
const found = "SELECT email_address, is_match, email_validation_status FROM email_validation";
const rejected = "SELECT code, length(source_key) <= 2000 FROM reject WHERE resolved_at IS NULL";
const tooLong = `${"a".repeat(2000)}@x`;
const statuses = `SELECT email_validation_status, previous_status, status_changed_at > now() - interval '1 day' FROM email_validation`;
const withStatus = (email_validation_status: string): Script => ({
  result: (usual, record) => (typeof record === "string" ? { ...usual, email_validation_status } : usual),
});
const invalid = withStatus("invalid");
const listed = "SELECT source_key, position, email_address FROM input_email";

testNights("validate_emails", {
  "sends each address once, however many rows and columns have it": [
    {
      config: validate(),
      edit:
        put(1, "Ann", { email: "a@x", work_email: "b@x" }) +
        put(2, "Bob", { email: "b@x", work_email: "b@x" }) +
        put(3, "Cid"),
      sent: ["a@x", "b@x"],
      ends: "4 read, 2 duplicate, 2 sent, 2 matched",
      tables: {
        [found]: ["a@x|t|valid", "b@x|t|valid"],
        [listed]: ["1|0|a@x", "1|1|b@x", "2|0|b@x", "2|1|b@x"],
        "SELECT input_rows, answered, matched, due FROM input_coverage": ["2|2|2|0"],
      },
    },
    { ends: "4 read, 4 unchanged" },
  ],
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
  "rejects an address that is too long, with one open reject, and sends the others of its row": [
    {
      config: validate(),
      edit: put(1, "Ann", { email: tooLong, work_email: "a@x" }),
      sent: ["a@x"],
      ends: "2 read, 1 sent, 1 rejected_before_sending, 1 matched, 1 rejected",
      tables: { [rejected]: ["key_too_long|t"], [found]: ["a@x|t|valid"] },
    },
    {
      ends: "2 read, 1 unchanged, 1 rejected_before_sending, 1 rejected",
      tables: { "SELECT count(*) FROM reject": ["1"] },
    },
    {
      edit: put(1, "Ann", { email: "b@x", work_email: "a@x" }),
      sent: ["b@x"],
      tables: { [rejected]: [] },
    },
  ],
  "sends an address that was refused once more only after rejects retry": [
    {
      config: validate(),
      edit: put(1, "Ann", { email: "poison@x", work_email: "a@x" }),
      sent: ["a@x", "a@x", "poison@x"],
      ends: "2 read, 2 sent, 1 matched, 1 rejected",
      tables: { [rejected]: ["value_error|t"] },
    },
    { edit: put(2, "Bob", { email: "poison@x" }), ends: "3 read, 3 unchanged" },
    { flags: { resend: true }, sent: ["a@x"] },
    {
      commands: [["rejects", "retry", "--yes"]],
      service: { hasPoison: false },
      sent: ["poison@x"],
      tables: { [rejected]: [], [found]: ["a@x|t|valid", "poison@x|t|valid"] },
    },
    { ends: "3 read, 3 unchanged" },
  ],
  "sends an address that is new, whatever else changes": [
    { config: validate(), edit: put(1, "Ann", { email: "a@x" }), sent: ["a@x"] },
    { edit: put(1, "Eve", { email: "a@x", city: "Rome" }), ends: "1 read, 1 unchanged" },
    {
      edit: put(1, "Eve", { email: "a@x", work_email: "e@x" }),
      sent: ["e@x"],
      tables: { [listed]: ["1|0|a@x", "1|1|e@x"] },
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
  "expires, and records when a status changed and what it was": [
    {
      config: validate(", refresh_after: 30d"),
      edit: put(1, "Ann", { email: "a@x" }),
      sent: ["a@x"],
      tables: { [statuses]: ["valid||"] },
    },
    { days: 23, ends: "1 read, 1 unchanged" },
    { days: 7, sent: ["a@x"], tables: { [statuses]: ["valid||"] } },
    { days: 30, service: invalid, sent: ["a@x"], tables: { [statuses]: ["invalid|valid|t"] } },
    { days: 30, service: invalid, sent: ["a@x"], tables: { [statuses]: ["invalid|valid|f"] } },
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
  "leaves out addresses found invalid, no others": [
    {
      config: dropping,
      edit: put(1, "Ann", { email: "bad@x", work_email: "unknown@x" }) + put(2, "Bob", { email: "b@x" }),
      sent: { validate_emails: ["b@x", "bad@x", "unknown@x"], enrich: ["Ann unknown@x", "Bob b@x"] },
      tables: { [found]: ["b@x|t|valid", "bad@x|t|invalid", "unknown@x|f|"] },
    },
    {},
  ],
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
  "a row that was rejected for an invalid address is sent when the address is valid again": [
    {
      config: dropping,
      edit: put(1, null, { email: "bad@x" }),
      sent: { validate_emails: ["bad@x"] },
      ends: {
        validate: "1 read, 1 sent, 1 matched",
        enrich: "1 read, 1 rejected_before_sending, 1 rejected",
      },
      tables: { "SELECT job, code FROM reject": ["enrich|no_identifier"] },
    },
    {
      days: 30,
      service: withStatus("valid"),
      sent: { validate_emails: ["bad@x"], enrich: ["bad@x"] },
      tables: { "SELECT job, code FROM reject WHERE resolved_at IS NULL": [] },
    },
    { ends: { validate: "1 read, 1 unchanged", enrich: "1 read, 1 unchanged" } },
  ],
  "doesn't hold back rows whose addresses aren't validated": [
    { config: dropping, edit: names("Ann"), flags: { jobs: ["enrich"] }, sent: { enrich: ["Ann"] } },
  ],
});
