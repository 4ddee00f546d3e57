import { type ExpectedNight, testNights } from "./cases.ts";
import { names, put } from "./night.ts";

const abc = names("Ann", "Bob", "Nobody");
const everyone = ["Ann", "Bob", "Nobody"];
/** Tables after all rows are answered, however many runs it took. */
const answered = {
  "SELECT source_key, service_pid, is_present FROM enrichment": ["1|p-ann|t", "2|p-bob|t", "3||f"],
  "SELECT source_key, service_pid, valid_to IS NULL FROM match_history": ["1|p-ann|t", "2|p-bob|t", "3||t"],
  "SELECT service_pid FROM person": ["p-ann", "p-bob"],
  "SELECT count(*) FROM reject": ["0"],
};
const quiet: ExpectedNight = { ends: "3 read, 3 unchanged", tables: answered };

const both = {
  jobs: "{ resolve: { type: resolve, input: customers }, enrich: { type: enrich, input: customers, pid_from: resolve } }",
};
const people = put(1, "Ann", { email: "a@x" }) + put(2, "Bob", { email: "b@x" });

// The first request of a process asks for the organization; `after_send` counts it, too.
testNights("a run that is killed", {
  "in resolve leaves the rows of enrich waiting for it, not unsent": [
    { config: both, edit: people, kill: "after_spool_fsync", sent: { resolve: ["Ann a@x", "Bob b@x"] } },
    { sent: { enrich: ["p-ann Ann a@x", "p-bob Bob b@x"] } },
    { ends: { resolve: "2 read, 2 unchanged", enrich: "2 read, 2 unchanged" } },
  ],
  "in a resend goes on with it, and begins no other one": [
    { config: { input: "order_by: id" }, edit: abc, sent: everyone },
    { flags: { resend: true, maxRecords: 1 }, kill: "after_commit", sent: ["Ann"] },
    { flags: { resend: true }, sent: ["Bob", "Nobody"], ends: "3 read, 1 unchanged, 2 sent, 1 matched" },
    quiet,
  ],
  "with answers on disk doesn't link a row that changed meanwhile": [
    { edit: names("Ann", "Bob"), kill: "after_spool_fsync", sent: ["Ann", "Bob"] },
    {
      edit: put(2, "Eve"),
      sent: ["Eve"],
      tables: {
        "SELECT source_key, service_pid FROM identity_link": ["1|p-ann", "2|p-eve"],
      },
    },
    { ends: "2 read, 2 unchanged" },
  ],
  "with answers on disk has them for an equal row with another key": [
    { edit: names("Ann"), kill: "after_spool_fsync", sent: ["Ann"] },
    {
      edit: "UPDATE crm.customers SET id = 2",
      tables: { "SELECT source_key, service_pid FROM identity_link": ["2|p-ann"] },
    },
  ],
  "with answers on disk doesn't link a row that left meanwhile": [
    { edit: names("Ann", "Bob"), kill: "after_spool_fsync", sent: ["Ann", "Bob"] },
    {
      edit: "DELETE FROM crm.customers WHERE id = 2",
      tables: { "SELECT source_key, service_pid FROM identity_link": ["1|p-ann"] },
    },
    { edit: put(2, "Bob"), tables: { "SELECT source_key FROM identity_link": ["1", "2"] } },
  ],
  "with answers on disk is loaded under its own parameters, whatever the configuration says by then": [
    { edit: names("Ann"), kill: "after_spool_fsync", sent: ["Ann"] },
    {
      config: { jobs: "{ enrich: { type: enrich, input: customers, return_fields: [phones] } }" },
      ends: "limited",
      tables: { "SELECT service_pid, full_name FROM person": ["p-ann|Ann Doe"] },
    },
    { config: {}, ends: "1 read, 1 unchanged" },
  ],
  "counts what was in flight in its budget": [
    {
      config: {
        jobs: "{ one: { type: enrich, input: customers } }",
        input: "order_by: id",
        more: "budgets: { enrich: { per_day: 4 } }",
      },
      edit: abc,
      kill: "after_receive",
      sent: "any",
    },
    { sent: ["Ann"], ends: "limited (budget_day): 3 read, 1 sent, 2 remaining, 1 matched" },
    { days: 1, sent: ["Bob", "Nobody"] },
  ],
  "twice in the same call sends it at most three times, and loses nothing": [
    { edit: abc, kill: "after_receive", sent: everyone },
    { kill: "after_receive", sent: everyone },
    { sent: everyone, tables: answered },
    quiet,
  ],
});
for (const kill of ["before_reserve", "after_reserve", "before_send"]) {
  testNights("a run that is killed", {
    [`at ${kill} has sent nothing, and the next one sends everything`]: [
      { edit: abc, kill },
      { sent: everyone, ends: "3 read, 3 sent, 2 matched", tables: answered },
      quiet,
    ],
  });
}
for (const kill of ["after_send:2", "after_receive", "before_spool_write"]) {
  testNights("a run that is killed", {
    [`at ${kill} had a call in flight, which the next one makes again`]: [
      { edit: abc, kill, sent: "any" as const },
      {
        sent: everyone,
        ends: "3 read, 3 sent, 2 matched",
        tables: {
          ...answered,
          "SELECT possibly_billed, http_status IS NULL FROM api_call": ["f|f", "t|t"],
          "SELECT possibly_billed_twice FROM sync_run WHERE status = 'succeeded'": ["3"],
        },
      },
      quiet,
    ],
  });
}
for (const kill of ["after_spool_fsync", "before_commit"]) {
  testNights("a run that is killed", {
    [`at ${kill} has its answers on disk, which the next one loads without sending anything`]: [
      { edit: abc, kill, sent: everyone },
      {
        tables: { ...answered, "SELECT possibly_billed, http_status FROM api_call": ["f|200"] },
      },
      quiet,
    ],
  });
}
for (const kill of ["after_commit", "after_spool_removal", "before_end", "after_end"]) {
  testNights("a run that is killed", {
    [`at ${kill} has its answers in the database, and the next one finds nothing due`]: [
      { edit: abc, kill, sent: everyone },
      quiet,
      quiet,
    ],
  });
}
