import { testNights } from "./cases.ts";
import { linked, noMatch, refreshing, rows } from "./enrichment.ts";
import { names, put } from "./night.ts";

testNights("is_present", {
  "is true again where a row goes back before it was sent": [
    { edit: names("Ann"), sent: ["Ann"] },
    { edit: put(1, "Eve"), flags: { maxRecords: 0 }, ends: "limited" },
    { edit: put(1, "Ann"), ends: "1 read, 1 duplicate", tables: { [rows]: ["1|p-ann|t|t"] } },
  ],
  "is false of a row whose new content is refused, which links to nobody": [
    { edit: names("Ann"), sent: ["Ann"] },
    {
      edit: put(1, "Poison"),
      sent: ["Poison"],
      ends: "1 read, 1 sent, 1 rejected",
      tables: { "SELECT is_present FROM enrichment": ["f"], [linked]: [] },
    },
  ],
  "stays true while an answer is expired but not sent again": [
    { config: refreshing, edit: names("Ann"), sent: ["Ann"] },
    { days: 10, flags: { maxRecords: 0 }, ends: "limited", tables: { [rows]: ["1|p-ann|t|t"] } },
  ],
  "of a row that where leaves out is false": [
    { edit: names("Ann", "Bob"), sent: ["Ann", "Bob"] },
    { config: { input: "where: id < 2" }, tables: { [rows]: ["1|p-ann|t|t", "2|p-bob|t|f"] } },
  ],
});

testNights("a row that left", {
  "before it was sent is never sent": [
    { edit: names("Ann", "Bob"), flags: { maxRecords: 0 }, ends: "limited" },
    {
      edit: "DELETE FROM crm.customers WHERE id = 1",
      sent: ["Bob"],
      tables: { [rows]: ["2|p-bob|t|t"] },
    },
  ],
  "shares a PID with another row only while it is in the input": [
    {
      edit: names("Ann", "Ann Lee"),
      sent: ["Ann", "Ann Lee"],
      tables: {
        "SELECT source_key, service_pid, input_rows FROM duplicate_input_row": ["1|p-ann|2", "2|p-ann|2"],
      },
    },
    {
      edit: "DELETE FROM crm.customers WHERE id = 1",
      tables: { "SELECT source_key FROM duplicate_input_row": [] },
    },
  ],
});

testNights("match_history", {
  "has an interval of each score": [
    { config: refreshing, edit: names("Ann"), sent: ["Ann"] },
    {
      days: 10,
      service: { result: (usual) => ({ ...usual, match_score: 89.5 }) },
      sent: ["Ann"],
      tables: { "SELECT match_score, valid_to IS NULL FROM match_history": ["89.5|t", "90|f"] },
    },
  ],
});

/** Scores and PIDs by name, of each endpoint. */
const answers: Readonly<Record<string, Readonly<Record<string, readonly [pid: string, score: number]>>>> = {
  resolve: { Ann: ["p-low", 60], Bob: ["p-bob", 70], Dan: ["p-best", 80], Eve: ["p-older", 50] },
  enrich: { Ann: ["p-high", 61.5], Dan: ["p-worse", 70], Eve: ["p-newer", 50] },
};
testNights("identity_link", {
  "is the best match of each row, of equal ones the newest": [
    {
      config: {
        jobs: "{ resolve: { type: resolve, input: customers }, enrich: { type: enrich, input: customers, after: [resolve] } }",
      },
      edit: ["Ann", "Bob", "Dan", "Eve"].map((name, i) => put(i + 1, name, { email: `${name}@x` })).join(""),
      service: {
        result: (usual, record, { endpoint }) => {
          const name = typeof record === "string" ? "" : String(record["full_name"]);
          const [pid = null, score = null] = answers[endpoint]?.[name] ?? [];
          return {
            record_id: usual["record_id"],
            is_match: pid !== null,
            service_pid: pid,
            match_score: score,
          };
        },
      },
      sent: "any",
      tables: {
        "SELECT source_key, service_pid, job, match_score FROM identity_link": [
          "1|p-high|enrich|61.5",
          "2|p-bob|resolve|70",
          "3|p-best|resolve|80",
          "4|p-newer|enrich|50",
        ],
      },
    },
  ],
});

const matchedTimes = `SELECT first_matched_at IS NULL, last_matched_at IS NULL, last_matched_at > first_matched_at,
  last_matched_service_pid, service_pid FROM enrichment`;

testNights("the times of matches", {
  "are null before the first match, outlive a lost one, and name the person of the last one": [
    {
      config: refreshing,
      edit: names("Ann"),
      service: noMatch,
      sent: ["Ann"],
      tables: { [matchedTimes]: ["t|t|||"] },
    },
    { days: 10, sent: ["Ann"], tables: { [matchedTimes]: ["f|f|f|p-ann|p-ann"] } },
    { days: 10, sent: ["Ann"], tables: { [matchedTimes]: ["f|f|t|p-ann|p-ann"] } },
    { days: 10, service: noMatch, sent: ["Ann"], tables: { [matchedTimes]: ["f|f|t|p-ann|"] } },
    { edit: names("Eve"), sent: ["Eve"], tables: { [matchedTimes]: ["f|f|t|p-eve|p-eve"] } },
  ],
});
