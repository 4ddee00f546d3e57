import { testNights } from "./cases.ts";
import { names, put } from "./night.ts";
import type { Result, Script } from "./scripted-service.ts";

const refreshing = { jobs: "{ enrich: { type: enrich, input: customers, refresh_after: 10d } }" };
const changed = (cells: Result): Script => ({
  result: (usual) => (usual["is_match"] === true ? { ...usual, ...cells } : usual),
});
const addresses = (...list: readonly string[]) =>
  list.map((email_address, i) => ({ email_rank: i + 1, email_address }));
const study = (minors: readonly string[]) => [
  { institution_name: "MIT", education_majors: ["Physics"], education_minors: minors },
];
const lists = { professional_emails: addresses("w@x"), education_experience: study(["Art"]) };
const fresh = (table: string) => `SELECT service_pid, _synced_at > now() - interval '1 day' FROM ${table}`;
const recordFresh = "SELECT service_pid, _record_synced_at > now() - interval '1 day' FROM person";

testNights("a person", {
  "is written with e-mails and phones for a match, and not for a non-match": [
    {
      edit: names("Ann", "Nobody"),
      sent: ["Ann", "Nobody"],
      tables: {
        "SELECT service_pid, full_name, gender FROM person": ["p-ann|Ann Doe|female"],
        "SELECT * FROM (SELECT service_pid, email_type, position, email_rank, email_address FROM person_email) AS e":
          ["p-ann|personal|0|1|p-ann@home.example"],
        "SELECT service_pid, position, phone_rank, phone_type, phone_number FROM person_phone": [
          "p-ann|0|1|mobile|5550100",
        ],
      },
    },
  ],
  "isn't written where the answer is the same; a changed scalar is, without the children": [
    { config: refreshing, edit: names("Ann"), sent: ["Ann"] },
    {
      days: 10,
      sent: ["Ann"],
      tables: {
        [recordFresh]: ["p-ann|f"],
        [fresh("person")]: ["p-ann|f"],
        [fresh("person_email")]: ["p-ann|f"],
      },
    },
    {
      days: 10,
      service: changed({ gender: "unknown" }),
      sent: ["Ann"],
      tables: {
        [recordFresh]: ["p-ann|t"],
        [fresh("person")]: ["p-ann|t"],
        [fresh("person_email")]: ["p-ann|f"],
        "SELECT gender FROM person": ["unknown"],
      },
    },
  ],
  "whose list shrank loses the rows, and moves": [
    {
      config: refreshing,
      edit: names("Ann"),
      service: changed({ phones: [{ phone_number: "1" }, { phone_number: "2" }] }),
      sent: ["Ann"],
      tables: { "SELECT position, phone_number FROM person_phone": ["0|1", "1|2"] },
    },
    {
      days: 10,
      service: changed({ phones: [{ phone_number: "1" }] }),
      sent: ["Ann"],
      tables: { "SELECT position, phone_number FROM person_phone": ["0|1"], [recordFresh]: ["p-ann|t"] },
    },
    {
      days: 10,
      service: changed({ phones: null }),
      sent: ["Ann"],
      tables: { "SELECT count(*) FROM person_phone": ["0"], [recordFresh]: ["p-ann|t"] },
    },
  ],
  "whose lists changed has their rows in the new order, and the other lists aren't written": [
    {
      config: refreshing,
      edit: names("Ann"),
      service: changed({ ...lists, personal_emails: addresses("a@x", "b@x") }),
      sent: ["Ann"],
    },
    {
      days: 10,
      service: changed({
        ...lists,
        personal_emails: addresses("b@x", "a@x"),
        education_experience: study(["Art", "Music"]),
      }),
      sent: ["Ann"],
      tables: {
        "SELECT email_type, position, email_address, _synced_at > now() - interval '1 day' FROM person_email":
          ["personal|0|b@x|t", "personal|1|a@x|t", "professional|0|w@x|f"],
        "SELECT subject_type, position, subject FROM person_education_subject": [
          "major|0|Physics",
          "minor|0|Art",
          "minor|1|Music",
        ],
        [fresh("person")]: ["p-ann|f"],
        [fresh("person_phone")]: ["p-ann|f"],
        [recordFresh]: ["p-ann|t"],
      },
    },
  ],
  "stays as it is after a later non-match": [
    { config: refreshing, edit: names("Ann"), sent: ["Ann"] },
    {
      days: 10,
      service: { result: ({ record_id }) => ({ record_id, is_match: false, service_pid: null }) },
      sent: ["Ann"],
      tables: { "SELECT service_pid FROM person": ["p-ann"], [recordFresh]: ["p-ann|f"] },
    },
  ],
  "keeps what a job doesn't ask for": [
    {
      config: {
        jobs: `{ all: { type: enrich, input: customers },
          phones: { type: enrich, input: customers, return_fields: [phones], after: [all], refresh_after: 10d } }`,
      },
      edit: names("Ann"),
      service: {
        result: (usual, _record, { body }) =>
          Array.isArray(body["return_fields"])
            ? {
                record_id: usual["record_id"],
                is_match: true,
                service_pid: "p-ann",
                match_score: 90,
                phones: [{ phone_number: "7" }],
              }
            : usual,
      },
      sent: ["Ann", "Ann"],
      tables: {
        "SELECT service_pid, full_name FROM person": ["p-ann|Ann Doe"],
        "SELECT phone_number FROM person_phone": ["7"],
        "SELECT email_address FROM person_email": ["p-ann@home.example"],
      },
    },
    { ends: { all: "1 read, 1 unchanged", phones: "1 read, 1 unchanged" } },
  ],
  "has fields that the interface doesn't name in _extra, and the schema's drift is recorded": [
    {
      edit: names("Ann"),
      service: changed({ favorite_color: "blue" }),
      sent: ["Ann"],
      tables: {
        "SELECT _extra->>'favorite_color' FROM person": ["blue"],
        "SELECT endpoint, path, kind, occurrences FROM schema_drift": [
          "POST /v2/enrich|favorite_color|unknown_field|1",
        ],
      },
    },
  ],
});

testNights("the ledger", {
  "has a row of each call, with its records and matches": [
    {
      edit: names("Ann", "Bob", "Nobody"),
      sent: ["Ann", "Bob", "Nobody"],
      tables: {
        [`SELECT run_id, job, endpoint, api_request_id, http_status, attempt, records_sent, records_matched, possibly_billed,
              response_bytes > 100, milliseconds >= 0 FROM api_call`]: [
          "night-1|enrich|POST /v2/enrich|req-1|200|1|3|2|f|t|t",
        ],
      },
    },
    { tables: { "SELECT count(*) FROM api_call": ["1"] } },
  ],
  "and the coverage of an input agree with its rows": [
    {
      edit: names("Ann", "Ann", "Nobody", "Poison"),
      sent: ["Ann", "Ann", "Nobody", "Nobody", "Poison"],
      tables: {
        "SELECT run_id, job, shard, source, input_rows, answered, matched, unmatched, rejected, due FROM input_coverage":
          ["night-1|enrich|0/1|customers|4|3|2|1|1|0"],
      },
    },
    {
      edit: put(5, "Bob"),
      flags: { maxRecords: 0 },
      ends: "limited",
      tables: {
        "SELECT input_rows, answered, matched, unmatched, rejected, due FROM input_coverage WHERE run_id = 'night-2'":
          ["5|3|2|1|1|1"],
      },
    },
  ],
  "shows a run that failed, and tables stay as fresh as the last success": [
    {
      edit: names("Ann"),
      sent: ["Ann"],
      tables: {
        "SELECT table_name FROM table_freshness WHERE last_success_at > now() - interval '1 day' AND table_name IN ('enrichment', 'person')":
          ["enrichment", "person"],
      },
    },
    {
      days: 2,
      edit: put(2, "Bob"),
      service: { call: () => ({ status: 403 }) },
      sent: ["Bob"],
      ends: "failed",
      tables: {
        "SELECT status, error IS NULL FROM sync_run WHERE run_id = 'night-2'": ["failed|f"],
        "SELECT table_name FROM table_freshness WHERE last_success_at > now() - interval '1 day' AND table_name = 'enrichment'":
          [],
      },
    },
  ],
  "of a no-op run moves the time of success, not that of a change": [
    { edit: names("Ann"), sent: ["Ann"] },
    {
      days: 2,
      tables: {
        "SELECT last_success_at > now() - interval '1 day', last_changed_at > now() - interval '1 day' FROM table_freshness WHERE table_name = 'enrichment'":
          ["t|f"],
      },
    },
  ],
});
