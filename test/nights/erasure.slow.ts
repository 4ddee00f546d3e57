import { testNights } from "./cases.ts";
import { names, put } from "./night.ts";
import type { Script } from "./scripted-service.ts";

const rows = "SELECT source_key, service_pid FROM enrichment";
const erase = (...what: readonly string[]) => ["erase", ...what, "--yes"];

/** Ann is the spouse and a relative of Bob. */
const asSpouse: Script = {
  result: (usual) => {
    const relatives = [{ relative_service_pid: "p-ann" }, { relative_service_pid: "p-eve" }];
    const isBob = usual["service_pid"] === "p-bob";
    return isBob ? { ...usual, service_spouse_pid: "p-ann", relatives } : usual;
  },
};
const withoutAnn = {
  "SELECT relative_service_pid FROM person_relative": ["p-eve"],
  "SELECT service_spouse_pid IS NULL FROM person": ["t"],
};

testNights("an erased person", {
  "is removed, isn't sent again, and counts as suppressed": [
    { edit: names("Ann", "Bob"), sent: ["Ann", "Bob"] },
    {
      commands: [erase("--source-key", "customers/1")],
      ends: "2 read, 1 unchanged, 1 suppressed",
      tables: { [rows]: ["2|p-bob"], "SELECT service_pid FROM person": ["p-bob"] },
    },
    { edit: put(1, "Ann Lee"), ends: "2 read, 1 unchanged, 1 suppressed" },
    { flags: { resend: true }, sent: ["Bob"], ends: "2 read, 1 suppressed, 1 sent, 1 matched" },
  ],
  "named by the PID stays out with all input rows": [
    { edit: names("Ann", "Ann Lee", "Bob"), sent: ["Ann", "Ann Lee", "Bob"] },
    {
      commands: [erase("--pid", "p-ann")],
      ends: "3 read, 1 unchanged, 2 suppressed",
      tables: { [rows]: ["3|p-bob"] },
    },
  ],
  "named by an address stays out under another key": [
    {
      edit: put(1, "Ann", { email: "a@x" }) + put(2, "Bob", { email: "b@x" }),
      sent: ["Ann a@x", "Bob b@x"],
    },
    { commands: [erase("--email", "a@x")], ends: "2 read, 1 unchanged, 1 suppressed" },
    { edit: put(7, "Anna", { work_email: "a@x" }), ends: "3 read, 1 unchanged, 2 suppressed" },
  ],
  "named by an address is found under the former name of a renamed input": [
    { edit: put(1, "Ann", { email: "a@x" }) + put(2, "Bob"), sent: ["Ann a@x", "Bob"] },
    {
      config: {
        inputs: `{ clients: { table: crm.customers, key: id,
              fields: { full_name: name, emails: [email, work_email], phones: [phone], city: city } } }`,
        jobs: "{ enrich: { type: enrich, input: clients } }",
      },
      commands: [erase("--email", "a@x")],
      ends: "2 read, 1 duplicate, 1 suppressed",
      tables: {
        "SELECT source, source_key FROM enrichment": ["clients|2", "customers|2"],
        "SELECT service_pid FROM person": ["p-bob"],
      },
    },
  ],
  "who is matched again by another row isn't stored": [
    { edit: names("Ann", "Bob"), sent: ["Ann", "Bob"] },
    { commands: [erase("--pid", "p-ann")], ends: "2 read, 1 unchanged, 1 suppressed" },
    {
      edit: put(3, "Ann Ray"),
      sent: ["Ann Ray"],
      tables: { [rows]: ["2|p-bob"], "SELECT service_pid FROM person": ["p-bob"] },
    },
  ],
  "leaves no answer of a row that was somebody else when it was erased": [
    { edit: names("Ann"), sent: ["Ann"] },
    { edit: names("Eve"), sent: ["Eve"] },
    {
      commands: [erase("--pid", "p-ann")],
      ends: "1 read, 1 unchanged",
      tables: { "SELECT service_pid FROM person_data_state.lookup_answer": ["p-eve"] },
    },
  ],
  "doesn't take along an equal row of somebody else's key": [
    { edit: names("Nobody", "Nobody"), sent: ["Nobody"] },
    {
      commands: [erase("--source-key", "customers/1")],
      ends: "2 read, 1 unchanged, 1 suppressed",
      tables: { "SELECT source_key FROM enrichment": ["2"] },
    },
  ],
  "before the first night is never sent": [
    {
      edit: names("Ann", "Bob"),
      commands: [["erase", "--source-key", "customers/1", "--yes", "--ignore-missing"]],
      sent: ["Bob"],
      ends: "2 read, 1 suppressed, 1 sent, 1 matched",
    },
  ],
  "in a spouse's and a relative's row is removed there, too, and stays away": [
    {
      edit: names("Ann", "Bob"),
      service: asSpouse,
      sent: ["Ann", "Bob"],
      tables: { "SELECT relative_service_pid FROM person_relative": ["p-ann", "p-eve"] },
    },
    {
      commands: [erase("--pid", "p-ann")],
      ends: "2 read, 1 unchanged, 1 suppressed",
      tables: withoutAnn,
    },
    { flags: { resend: true }, service: asSpouse, sent: ["Bob"], tables: withoutAnn },
  ],
  "leaves the addresses of others in validation": [
    {
      config: { jobs: "{ validate: { type: validate_emails, input: customers } }" },
      edit: put(1, "Ann", { email: "a@x" }) + put(2, "Bob", { email: "b@x" }),
      sent: ["a@x", "b@x"],
    },
    {
      commands: [erase("--source-key", "customers/1")],
      ends: "2 read, 1 unchanged, 1 suppressed",
      tables: {
        "SELECT email_address FROM email_validation": ["b@x"],
        "SELECT email_address FROM input_email": ["b@x"],
      },
    },
  ],
});
