import { expect, test } from "vitest";
import { testNights } from "./cases.ts";
import { names, openWorld, put } from "./night.ts";

const refreshed = (settings: string) => ({
  jobs: `{ enrich: { type: enrich, input: customers, ${settings} } }`,
});

testNights("what is due", {
  "a row that was never answered is sent, and a no-op run sends nothing": [
    { edit: names("Ann", "Bob"), sent: ["Ann", "Bob"], ends: "2 read, 2 sent, 2 matched" },
    { ends: "2 read, 2 unchanged" },
    { days: 3000, ends: "2 read, 2 unchanged" },
  ],
  "a row whose content changed is sent again": [
    { edit: names("Ann", "Bob"), sent: ["Ann", "Bob"] },
    {
      edit: put(1, "Ann", { city: "Rome" }),
      sent: ["Ann Rome"],
      ends: "2 read, 1 unchanged, 1 sent, 1 matched",
    },
    { ends: "2 read, 2 unchanged" },
  ],
  "a value that becomes null or blank is a change, and null instead of blank is none": [
    { edit: put(1, "Ann", { city: "Rome" }), sent: ["Ann Rome"] },
    { edit: put(1, "Ann", { city: " " }), sent: ["Ann"] },
    { edit: put(1, "Ann", { city: "" }) },
    { edit: put(1, "Ann", { city: null }) },
  ],
  "a row with nothing but a PID is sent": [
    {
      config: {
        inputs: "{ people: { table: crm.people, key: id, fields: { service_pid: pid, full_name: name } } }",
        jobs: "{ enrich: { type: enrich, input: people } }",
      },
      edit: `CREATE TABLE crm.people (id int, pid text, name text);
            INSERT INTO crm.people VALUES (1, 'p-1', NULL), (2, NULL, 'Ann'), (3, NULL, NULL)`,
      sent: ["Ann", "p-1"],
      ends: "3 read, 2 sent, 1 rejected_before_sending, 2 matched, 1 rejected",
      tables: {
        "SELECT source_key, service_pid FROM enrichment": ["1|p-1", "2|p-ann"],
        "SELECT source_key, code FROM reject": ["3|no_identifier"],
      },
    },
    { edit: "UPDATE crm.people SET pid = 'p-2' WHERE id = 1", sent: ["p-2"] },
    { ends: "3 read, 3 unchanged" },
  ],
  "a value that moves to the column of another field is a change": [
    { edit: put(1, "Rome", { phone: "5550001" }), sent: ["Rome 5550001"] },
    { edit: put(1, null, { phone: "5550001", city: "Rome" }), sent: ["5550001 Rome"] },
    { edit: put(1, "5550001", { city: "Rome" }), sent: ["5550001 Rome"] },
    { ends: "1 read, 1 unchanged" },
  ],
  "a column that isn't mapped changes nothing": [
    { edit: `ALTER TABLE crm.customers ADD note text; ${names("Ann")}`, sent: ["Ann"] },
    { edit: "UPDATE crm.customers SET note = 'new'", ends: "1 read, 1 unchanged" },
  ],
  "order and rewriting of the table change nothing": [
    { edit: names("Ann", "Bob", "Cid"), sent: ["Ann", "Bob", "Cid"] },
    {
      edit: `CREATE TABLE crm.copy AS SELECT * FROM crm.customers ORDER BY id DESC; DROP TABLE crm.customers;
          ALTER TABLE crm.copy RENAME TO customers`,
      ends: "3 read, 3 unchanged",
    },
  ],
  "an answer expires after refresh_after, at the earliest after four fifths of it": [
    { config: refreshed("refresh_after: 10d"), edit: names("Ann", "Nobody"), sent: ["Ann", "Nobody"] },
    { days: 7, ends: "2 read, 2 unchanged" },
    { days: 3, sent: ["Ann", "Nobody"], ends: "2 read, 2 sent, 1 matched" },
  ],
  "only first answers expire early": [
    {
      config: refreshed("refresh_after: 100d"),
      edit: names("Ann", "Bob", "Cid", "Dan", "Eve"),
      sent: ["Ann", "Bob", "Cid", "Dan", "Eve"],
    },
    { days: 79, ends: "5 read, 5 unchanged" },
    { days: 21, sent: ["Ann", "Bob", "Cid", "Dan", "Eve"] },
    { days: 99, ends: "5 read, 5 unchanged" },
    { days: 1, sent: ["Ann", "Bob", "Cid", "Dan", "Eve"] },
  ],
  "non-matches expire after refresh_unmatched_after, matches don't": [
    {
      config: refreshed("refresh_after: 90d, refresh_unmatched_after: 30d"),
      edit: names("Ann", "Nobody"),
      sent: ["Ann", "Nobody"],
    },
    { days: 23, ends: "2 read, 2 unchanged" },
    { days: 7, sent: ["Nobody"], ends: "2 read, 1 unchanged, 1 sent" },
    { days: 30, sent: ["Nobody"] },
    { days: 30, sent: ["Ann", "Nobody"] },
  ],
  "a refresh that changes applies to answers of earlier nights": [
    { edit: names("Ann"), sent: ["Ann"] },
    { days: 20, ends: "1 read, 1 unchanged" },
    { config: refreshed("refresh_after: 10d"), sent: ["Ann"] },
    { days: 9 },
    { days: 1, sent: ["Ann"] },
    { days: 15, config: refreshed("refresh_after: 20d") },
    { days: 100, config: {} },
  ],
  "--resend of several jobs sends an equal row of both once": [
    {
      config: {
        inputs: `{ customers: { table: crm.customers, key: id, fields: { full_name: name } },
          others: { sql: "SELECT id, name FROM crm.customers WHERE id > 1", key: id, fields: { full_name: name } } }`,
        jobs: "{ one: { type: enrich, input: customers }, two: { type: enrich, input: others } }",
      },
      edit: names("Ann", "Bob"),
      sent: ["Ann", "Bob"],
    },
    { flags: { resend: true }, sent: ["Ann", "Bob"] },
    { flags: { jobs: ["two"] } },
    { flags: { jobs: ["two"], resend: true }, sent: ["Bob"] },
  ],
  "--resend leaves rejected rows alone": [
    { edit: names("Ann", "Poison"), sent: ["Ann", "Ann", "Poison"] },
    { flags: { resend: true }, sent: ["Ann"], ends: "2 read, 1 unchanged, 1 sent, 1 matched" },
  ],
  "a resend that a cap stopped is continued, and then another one begins with every answered row": [
    { edit: names("Ann", "Bob", "Nobody"), sent: ["Ann", "Bob", "Nobody"] },
    {
      config: { input: "order_by: id" },
      flags: { resend: true, maxRecords: 2 },
      sent: ["Ann", "Bob"],
      ends: "limited (max_records): 3 read, 2 sent, 1 remaining, 2 matched",
    },
    { flags: { resend: true }, sent: ["Nobody"], ends: "3 read, 2 unchanged, 1 sent" },
    { ends: "3 read, 3 unchanged" },
    { flags: { resend: true }, sent: ["Ann", "Bob", "Nobody"], ends: "3 read, 3 sent, 2 matched" },
  ],
  "a run without --resend continues a resend that a cap stopped": [
    { edit: names("Ann", "Bob"), config: { input: "order_by: id" }, sent: ["Ann", "Bob"] },
    {
      flags: { resend: true, maxRecords: 1 },
      sent: ["Ann"],
      ends: "limited (max_records): 2 read, 1 sent, 1 remaining, 1 matched",
    },
    { sent: ["Bob"], ends: "2 read, 1 unchanged, 1 sent, 1 matched" },
    { ends: "2 read, 2 unchanged" },
  ],
  "where leaves rows out, and only new ones are sent when it widens": [
    {
      config: { input: "where: id < 3" },
      edit: names("Ann", "Bob", "Cid"),
      sent: ["Ann", "Bob"],
      ends: "2 read, 2 sent, 2 matched",
    },
    { config: {}, sent: ["Cid"], ends: "3 read, 2 unchanged, 1 sent, 1 matched" },
  ],
});
for (const daysFast of [-31, 400]) {
  testNights("what is due", {
    [`an answer expires by the database's clock, also if that of the service is ${daysFast} days fast`]: [
      { config: refreshed("refresh_after: 10d"), edit: names("Ann"), service: { daysFast }, sent: ["Ann"] },
      { days: 7, service: { daysFast }, ends: "1 read, 1 unchanged" },
      { days: 3, service: { daysFast }, sent: ["Ann"] },
      { service: { daysFast }, ends: "1 read, 1 unchanged" },
    ],
  });
}

test("first answers of one night expire on many days", async () => {
  const world = await openWorld(refreshed("refresh_after: 100d"));
  await world.night({
    edit: "INSERT INTO crm.customers SELECT i, 'Ann' || i FROM generate_series(1, 200) AS i",
  });
  const expired: number[] = [];
  for (const days of [79, 6, 5, 5, 5]) {
    const { sent } = await world.night({ days });
    expired.push(sent.enrich?.length ?? 0);
  }
  const [early, ...parts] = expired;
  expect([early, parts.reduce((sum, part) => sum + part, 0)]).toEqual([0, 200]);
  for (const part of parts) expect(part).toBeGreaterThan(20);
});
