import { testNights } from "./cases.ts";
import { names, put } from "./night.ts";

const linked = "SELECT source_key, service_pid, is_present FROM enrichment";

testNights("equal rows", {
  "are sent once, and each gets the answer": [
    {
      edit: names("Ann", "Ann", "Bob", "Ann"),
      sent: ["Ann", "Bob"],
      ends: "4 read, 2 duplicate, 2 sent, 2 matched",
      tables: { [linked]: ["1|p-ann|t", "2|p-ann|t", "3|p-bob|t", "4|p-ann|t"] },
    },
    { ends: "4 read, 4 unchanged" },
  ],
  "that come later get the answer without a call, under its request": [
    { edit: names("Ann"), sent: ["Ann"] },
    {
      edit: put(2, "Ann"),
      ends: "2 read, 1 unchanged, 1 duplicate",
      tables: {
        [linked]: ["1|p-ann|t", "2|p-ann|t"],
        "SELECT count(DISTINCT api_request_id), count(DISTINCT request_completed_at) FROM enrichment": [
          "1|1",
        ],
      },
    },
    { ends: "2 read, 2 unchanged" },
  ],
  "are equal if their addresses are, in the same order": [
    {
      edit:
        put(1, "Ann", { email: "a@x", work_email: "b@x" }) +
        put(2, "Ann", { email: "a@x", work_email: "b@x" }) +
        put(3, "Ann", { email: "b@x", work_email: "a@x" }),
      sent: ["Ann a@x b@x", "Ann b@x a@x"],
      ends: "3 read, 1 duplicate, 2 sent, 2 matched",
    },
  ],
  "of an array column are equal to those of two text columns": [
    {
      config: {
        inputs: `{ customers: { sql: "SELECT id, name, ARRAY[email, work_email] AS emails FROM crm.customers", key: id,
        fields: { full_name: name, emails: [emails] } } }`,
      },
      edit: put(1, "Ann", { email: "a@x", work_email: "b@x" }) + put(2, "Ann", { email: "a@x" }),
      sent: ["Ann a@x", "Ann a@x b@x"],
    },
    { edit: put(2, "Ann", { work_email: "a@x" }), ends: "2 read, 2 unchanged" },
    {
      edit: put(2, "Ann", { email: "a@x", work_email: "b@x" }),
      ends: "2 read, 1 unchanged, 1 duplicate",
    },
  ],
  "become equal by normalize: true": [
    {
      config: { input: "normalize: true" },
      edit: put(1, " Ann ", { email: "A@X.org" }) + put(2, "Ann", { email: "a@x.org ", city: "n/a" }),
      sent: ["Ann a@x.org"],
      ends: "2 read, 1 duplicate, 1 sent, 1 matched",
    },
    { edit: put(1, "Ann", { email: "a@X.org", phone: "000-000-0000" }), ends: "2 read, 2 unchanged" },
  ],
  "under a cap count once": [
    {
      config: { input: "order_by: id" },
      edit: names("Ann", "Ann", "Bob", "Bob", "Cid"),
      flags: { maxRecords: 2 },
      sent: ["Ann", "Bob"],
      ends: "limited (max_records): 5 read, 2 duplicate, 2 sent, 1 remaining, 2 matched",
    },
    { sent: ["Cid"], ends: "5 read, 4 unchanged, 1 sent, 1 matched" },
  ],
  "that the service refuses are sent once, and each is rejected": [
    {
      edit: names("Poison", "Poison", "Ann"),
      sent: ["Ann", "Ann", "Poison"],
      ends: "3 read, 1 duplicate, 2 sent, 1 matched, 1 rejected",
      tables: {
        "SELECT source_key, code, resolved_at IS NULL FROM reject": ["1|value_error|t", "2|value_error|t"],
      },
    },
    { ends: "3 read, 3 unchanged" },
  ],
  "that go back to an answer older than a resend are sent": [
    { edit: names("Ann"), sent: ["Ann"] },
    { edit: names("Eve"), sent: ["Eve"] },
    { flags: { resend: true }, sent: ["Eve"] },
    { edit: names("Ann"), sent: ["Ann"] },
  ],
  "that exchange their contents exchange their answers": [
    { edit: names("Ann", "Bob"), sent: ["Ann", "Bob"] },
    {
      edit: names("Bob", "Ann"),
      tables: { [linked]: ["1|p-bob|t", "2|p-ann|t"] },
    },
  ],
});
