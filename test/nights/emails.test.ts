import { hash } from "node:crypto";
import { testNights } from "./cases.ts";
import { put } from "./night.ts";
import { dropping, invalid, listed, validate, withStatus } from "./validation.ts";

const found = "SELECT email_address, is_match, email_validation_status FROM email_validation";
const rejected = "SELECT code, length(source_key) <= 2000 FROM reject WHERE resolved_at IS NULL";
/** Longer than entries of an index can be, even compressed. */
const tooLong = `${Array.from({ length: 100 }, (_, i) => hash("sha256", String(i))).join("")}@x`;
const statuses = `SELECT email_validation_status, previous_status, status_changed_at > now() - interval '1 day' FROM email_validation`;

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
});
