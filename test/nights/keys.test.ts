import { testNights } from "./cases.ts";
import { names, put } from "./night.ts";

const linked = "SELECT source_key, service_pid FROM enrichment";
const open = "SELECT source_key, code FROM reject WHERE resolved_at IS NULL";

/** Table `crm.people` with keys of a type, and a configuration of it. */
const peopleOf = (key: string, more = "") => ({
  inputs: `{ people: { table: crm.people, key: ${key}, fields: { full_name: name }${more} } }`,
  jobs: "{ enrich: { type: enrich, input: people } }",
});

testNights("keys", {
  "that are null are rejected by every run, with one open reject": [
    {
      edit: "INSERT INTO crm.customers (id, name) VALUES (NULL, 'Ann'), (1, 'Bob')",
      sent: ["Bob"],
      ends: "2 read, 1 sent, 1 rejected_before_sending, 1 matched, 1 rejected",
      tables: { [open]: ["|missing_key"] },
    },
    {
      ends: "2 read, 1 unchanged, 1 rejected_before_sending, 1 rejected",
      tables: { [open]: ["|missing_key"], "SELECT count(*) FROM reject": ["1"] },
    },
    {
      edit: "UPDATE crm.customers SET id = 2 WHERE id IS NULL",
      sent: ["Ann"],
      tables: { [open]: [], [linked]: ["1|p-bob", "2|p-ann"] },
    },
  ],
  "of several rows: one copy is used, the others are rejected": [
    {
      edit: "INSERT INTO crm.customers (id, name) VALUES (1, 'Ann'), (1, 'Ann'), (2, 'Bob')",
      sent: ["Ann", "Bob"],
      ends: "3 read, 2 sent, 1 rejected_before_sending, 2 matched, 1 rejected",
      tables: { [open]: ["1|duplicate_key"], [linked]: ["1|p-ann", "2|p-bob"] },
    },
    {
      ends: "3 read, 2 unchanged, 1 rejected_before_sending, 1 rejected",
      tables: { [open]: ["1|duplicate_key"] },
    },
    {
      edit: "DELETE FROM crm.customers WHERE ctid = (SELECT min(ctid) FROM crm.customers WHERE id = 1)",
      ends: "2 read, 2 unchanged",
      tables: { [open]: [] },
    },
  ],
  "that most rows share send nothing in a first run without the user's word": [
    {
      config: {
        jobs: "{ validate: { type: validate_emails, input: customers }, enrich: { type: enrich, input: customers } }",
      },
      edit: "INSERT INTO crm.customers (id, name, email) SELECT 1, 'Ann' || i, i || '@x' FROM generate_series(1, 9) AS i",
      flags: { yes: false },
      ends: {
        validate: "limited (confirmation): 9 read, 9 remaining",
        enrich: "limited (confirmation): 9 read, 8 rejected_before_sending, 1 remaining, 8 rejected",
      },
    },
  ],
  "of several rows with other contents: every night uses the same copy": [
    {
      edit: "INSERT INTO crm.customers (id, name) VALUES (1, 'Bob'), (1, 'Ann')",
      sent: ["Ann"],
      ends: "2 read, 1 sent, 1 rejected_before_sending, 1 matched, 1 rejected",
    },
    {
      edit: `CREATE TABLE crm.copy AS SELECT * FROM crm.customers ORDER BY name; DROP TABLE crm.customers;
          ALTER TABLE crm.copy RENAME TO customers`,
      ends: "2 read, 1 unchanged, 1 rejected_before_sending, 1 rejected",
    },
  ],
  "that are too long are rejected, shortened in the table": [
    {
      config: peopleOf("id"),
      edit: "CREATE TABLE crm.people AS SELECT repeat('k', n) AS id, name FROM (VALUES (2000, 'Ann'), (2001, 'Bob')) AS v(n, name)",
      sent: ["Ann"],
      ends: "2 read, 1 sent, 1 rejected_before_sending, 1 matched, 1 rejected",
      tables: { "SELECT code, length(source_key) < 2001 FROM reject": ["key_too_long|t"] },
    },
  ],
  "of two columns are a list, and rejected if one is null": [
    {
      config: peopleOf("[tenant, id]"),
      edit: `CREATE TABLE crm.people (tenant int, id text, name text);
          INSERT INTO crm.people VALUES (1, 'a', 'Ann'), (2, 'a', 'Bob'), (1, 'b, "c"', 'Cid'), (1, NULL, 'Dan'), (NULL, 'a', 'Eve')`,
      sent: ["Ann", "Bob", "Cid"],
      tables: {
        "SELECT source_key::json->>0, source_key::json->>1, service_pid FROM enrichment": [
          "1|a|p-ann",
          '1|b, "c"|p-cid',
          "2|a|p-bob",
        ],
        "SELECT tenant, id, service_pid FROM link_people": ["1|a|p-ann", '1|b, "c"|p-cid', "2|a|p-bob"],
        "SELECT full_name FROM profile_people WHERE tenant = 1 AND id = 'b, \"c\"'": ["Cid Doe"],
      },
    },
    {
      edit: "UPDATE crm.people SET tenant = 3 WHERE tenant = 2",
      ends: "5 read, 2 unchanged, 1 duplicate, 2 rejected_before_sending, 2 rejected",
    },
  ],
});

testNights("rows without what the service needs", {
  "without any value are rejected once, and sent when they get one": [
    {
      edit: put(1, null) + put(2, " ", { city: "" }) + put(3, "Ann"),
      sent: ["Ann"],
      ends: "3 read, 1 sent, 2 rejected_before_sending, 1 matched, 2 rejected",
      tables: { [open]: ["1|no_identifier", "2|no_identifier"] },
    },
    { ends: "3 read, 3 unchanged", tables: { [open]: ["1|no_identifier", "2|no_identifier"] } },
    { edit: put(1, "Bob"), sent: ["Bob"], tables: { [open]: ["2|no_identifier"] } },
  ],
  "that lose all values are rejected, and aren't linked any more": [
    {
      edit: names("Ann"),
      sent: ["Ann"],
      tables: { "SELECT source_key, service_pid FROM identity_link": ["1|p-ann"] },
    },
    {
      edit: put(1, null),
      ends: "1 read, 1 rejected_before_sending, 1 rejected",
      tables: { "SELECT source_key FROM identity_link": [], "SELECT is_present FROM enrichment": ["f"] },
    },
  ],
  "for resolve need a name and an address or a phone": [
    {
      config: { jobs: "{ resolve: { type: resolve, input: customers } }" },
      edit:
        names("Ann") +
        put(2, null, { email: "b@x" }) +
        put(3, "Cid", { phone: "5550001" }) +
        put(4, "Dan", { email: "d@x" }) +
        put(5, null),
      sent: ["Cid 5550001", "Dan d@x"],
      ends: "5 read, 2 sent, 3 rejected_before_sending, 2 matched, 3 rejected",
      tables: { [open]: ["1|not_resolvable", "2|not_resolvable", "5|no_identifier"] },
    },
    { edit: put(1, "Ann", { phone: "5550002" }), sent: ["Ann 5550002"] },
  ],
});
