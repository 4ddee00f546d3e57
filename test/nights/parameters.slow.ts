import { testNights } from "./cases.ts";
import { names, put } from "./night.ts";

const enrich = (more: string) => ({ jobs: `{ enrich: { type: enrich, input: customers${more} } }` });
const phones = enrich(", return_fields: [phones]");

const twoInputs = (more: string) => ({
  inputs: `{ customers: { table: crm.customers, key: id, fields: { full_name: name } },
    leads: { table: crm.leads, key: id, fields: { full_name: name } } }`,
  jobs: `{ one: { type: enrich, input: customers, return_fields: [phones] }, two: { type: enrich, input: leads${more} } }`,
});
const people = put(1, "Ann", { email: "a@x" }) + put(2, "Bob", { email: "b@x" });
const withPids = (resolve = "") => ({
  jobs: `{ resolve: { type: resolve, input: customers${resolve} }, enrich: { type: enrich, input: customers, pid_from: resolve } }`,
  input: "order_by: id",
});

testNights("changed parameters", {
  "begin no resend before they are accepted": [
    { edit: names("Ann", "Bob"), sent: ["Ann", "Bob"] },
    {
      config: phones,
      flags: { resend: true },
      ends: "limited (parameters_changed): 2 read, 2 remaining",
    },
    { config: {}, edit: put(1, "Eve"), sent: ["Eve"] },
    { edit: put(1, "Ann") },
  ],
  "that buy nothing don't hold up a resend": [
    { edit: names("Ann", "Bob"), sent: ["Ann", "Bob"] },
    { config: phones, flags: { acceptParameters: "resend" }, sent: ["Ann", "Bob"] },
    { config: {}, flags: { resend: true }, sent: ["Ann", "Bob"], ends: "2 read, 2 sent, 2 matched" },
    { ends: "2 read, 2 unchanged" },
  ],
  "with keep give a key of several rows the answer of the copy that was sent": [
    {
      edit: "INSERT INTO crm.customers (id, name) VALUES (1, 'Bob'), (1, 'Ann'), (2, 'Cid')",
      sent: ["Ann", "Cid"],
    },
    {
      config: phones,
      flags: { acceptParameters: "keep" },
      ends: "3 read, 2 unchanged, 1 rejected_before_sending, 1 rejected",
      tables: {
        "SELECT source_key, service_pid, is_present FROM enrichment": ["1|p-ann|t", "2|p-cid|t"],
      },
    },
    { ends: "3 read, 2 unchanged, 1 rejected_before_sending, 1 rejected" },
  ],
  "with keep give nobody's answer to a changed row, or to a key that left and came back": [
    { edit: names("Ann", "Bob", "Cid"), sent: ["Ann", "Bob", "Cid"] },
    { edit: "DELETE FROM crm.customers WHERE id = 2;", ends: "2 read, 2 unchanged" },
    {
      edit: put(2, "Eve") + put(3, "Dan"),
      config: phones,
      flags: { acceptParameters: "keep" },
      sent: ["Dan", "Eve"],
    },
  ],
  "with keep replace an older answer to the same content": [
    { config: enrich(", refresh_after: 10d"), edit: names("Ann"), sent: ["Ann"] },
    {
      config: enrich(", refresh_after: 10d, return_fields: [phones]"),
      days: 5,
      flags: { acceptParameters: "resend" },
      sent: ["Ann"],
    },
    { config: enrich(", refresh_after: 10d"), days: 7, ends: "limited" },
    { flags: { acceptParameters: "keep" }, ends: "1 read, 1 unchanged" },
  ],
  "with keep show the answer that another job has bought with them": [
    {
      config: twoInputs(""),
      edit: `${names("Ann")} CREATE TABLE crm.leads (LIKE crm.customers);
            INSERT INTO crm.leads (id, name) VALUES (1, 'Ann'), (2, 'Bob')`,
      service: {
        result: (usual, _record, { body }) =>
          body["return_fields"] === undefined
            ? { ...usual, is_match: false, service_pid: null, match_score: null }
            : usual,
      },
      sent: ["Ann", "Ann", "Bob"],
    },
    { config: twoInputs(", return_fields: [phones]"), ends: "limited" },
    {
      flags: { acceptParameters: "keep" },
      ends: { one: "1 read, 1 unchanged", two: "2 read, 2 unchanged" },
      tables: {
        "SELECT job, source_key, service_pid FROM enrichment": ["one|1|p-ann", "two|1|p-ann", "two|2|"],
      },
    },
  ],
  "keep the time at which answers expire": [
    { config: enrich(", refresh_after: 10d"), edit: names("Ann"), sent: ["Ann"] },
    {
      days: 5,
      config: enrich(", refresh_after: 10d, return_fields: [phones]"),
      flags: { acceptParameters: "keep" },
      ends: "1 read, 1 unchanged",
    },
    { days: 5, sent: ["Ann"] },
  ],
  "ask nothing where nothing was answered": [
    { edit: names("Ann"), flags: { maxRecords: 0 }, ends: "limited" },
    { config: phones, sent: ["Ann"] },
  ],
});

testNights("a changed mapping", {
  "that adds pid_from asks, and with keep sends only to resolve": [
    { edit: people, sent: ["Ann a@x", "Bob b@x"] },
    {
      config: withPids(),
      sent: { resolve: ["Ann a@x", "Bob b@x"] },
      ends: {
        resolve: "2 read, 2 sent, 2 matched",
        enrich: "limited (parameters_changed): 2 read, 2 remaining",
      },
    },
    {
      flags: { acceptParameters: "keep" },
      ends: { resolve: "2 read, 2 unchanged", enrich: "2 read, 2 unchanged" },
    },
    { ends: { resolve: "2 read, 2 unchanged", enrich: "2 read, 2 unchanged" } },
  ],
  "that adds pid_from asks before the rows have their PID, too": [
    { edit: people, sent: ["Ann a@x", "Bob b@x"] },
    {
      config: withPids(),
      flags: { jobs: ["enrich"] },
      ends: "limited (parameters_changed): 2 read, 2 waiting",
    },
    { flags: { acceptParameters: "resend", jobs: ["enrich"] }, ends: "2 read, 2 waiting" },
    {
      sent: { resolve: ["Ann a@x", "Bob b@x"], enrich: ["p-ann Ann a@x", "p-bob Bob b@x"] },
      ends: { resolve: "2 read, 2 sent, 2 matched", enrich: "2 read, 2 sent, 2 matched" },
    },
  ],
  "of normalize asks, too": [
    { edit: put(1, " Ann "), sent: [" Ann "] },
    { config: { input: "normalize: true" }, ends: "limited" },
    { flags: { acceptParameters: "keep" }, ends: "1 read, 1 unchanged" },
    { edit: put(1, " Eve "), sent: ["Eve"] },
  ],
  "is none where only the order of the fields changes": [
    {
      config: {
        inputs: "{ customers: { table: crm.customers, key: id, fields: { full_name: name, city: city } } }",
      },
      edit: put(1, "Ann", { city: "Rome" }),
      sent: ["Ann Rome"],
    },
    {
      config: {
        inputs: "{ customers: { table: crm.customers, key: id, fields: { city: city, full_name: name } } }",
      },
      ends: "1 read, 1 unchanged",
    },
  ],
});
