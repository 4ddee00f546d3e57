import { type KeyColumn, linkView } from "../../src/schemas/views/link-input.ts";
import { profileView } from "../../src/schemas/views/profile-input.ts";
import type { FileRow, TableRows } from "./staged-files.ts";

const AT = "2026-11-21T04:00:00.000001+00:00";
const LATER = "2026-11-22T04:00:00.000001+00:00";

const stored = (rows: readonly FileRow[], keyColumns: readonly string[], table: string): TableRows => ({
  table,
  keys: rows.map((row) => Object.fromEntries(keyColumns.map((column) => [column, row[column]]))),
  rows: rows.map((row) => ({ ...row, _synced_at: AT, _run_id: "r" })),
});
const ofPeople = (table: string, rows: readonly FileRow[]): TableRows => {
  const positions = new Map<unknown, number>();
  return {
    table,
    keys: [...new Set(rows.map((row) => row["service_pid"]))].map((pid) => ({ service_pid: pid })),
    rows: rows.map((row) => {
      const position = positions.get(row["service_pid"]) ?? 0;
      positions.set(row["service_pid"], position + 1);
      return { ...row, position, _synced_at: AT, _run_id: "r" };
    }),
  };
};

/** Answer to an input row, as `source/key`. */
const answer = (job: string, row: string, match: FileRow): FileRow => ({
  job,
  source: row.split("/")[0],
  source_key: row.split("/")[1],
  is_match: true,
  is_present: true,
  last_matched_at: AT,
  ...match,
});
const address = (pid: string, type: string, rank: number | null, text: string | null): FileRow => ({
  service_pid: pid,
  email_type: type,
  email_rank: rank,
  email_address: text,
});
const job = (pid: string, rank: number | null, status: string, title: string): FileRow => ({
  service_pid: pid,
  experience_rank: rank,
  work_status: status,
  work_title: title,
});

/** Content of a list of a person on days `from` to `to` of November. */
const former = (
  pid: string,
  group: string,
  [from, to]: readonly [number, number],
  items: readonly object[] | null,
): FileRow => ({
  service_pid: pid,
  field_group: group,
  valid_from: `2026-11-0${from}T04:00:00+00:00`,
  valid_to: `2026-11-0${to}T04:00:00+00:00`,
  content: items && JSON.stringify(items),
});
const formerJob = (rank: number, status: string, company: string | null, title: string) => ({
  experience_rank: rank,
  work_status: status,
  work_company_name: company,
  work_title: title,
});

/** Rows from which every view of people has something to decide. */
export const viewRows: readonly TableRows[] = [
  stored(
    [
      answer("resolve", "customers/1", { service_pid: "p-a", match_score: "80" }),
      answer("resolve", "customers/2", { service_pid: "p-a", match_score: "80.5" }),
      answer("resolve", "customers/3", { service_pid: "p-a", match_score: "60" }),
      answer("resolve", "customers/4", { service_pid: "p-a", match_score: null }),
      answer("resolve", "customers/5", { service_pid: "p-a", match_score: "70", is_present: false }),
      answer("resolve", "customers/6", { service_pid: null, is_match: false, last_matched_at: null }),
      answer("resolve", "customers/7", { service_pid: "p-c", match_score: null, last_matched_at: null }),
      answer("resolve", "leads/1", { service_pid: "p-b", match_score: "55" }),
      answer("resolve", 'orders/["2026-01-02", "K-1"]', { service_pid: "p-h", match_score: "55" }),
      answer("resolve", "orders/K-1", { service_pid: "p-i", match_score: "55" }),
    ],
    ["job", "source", "source_key"],
    "resolution",
  ),
  stored(
    [
      answer("enrich", "customers/1", { service_pid: "p-b", match_score: "90" }),
      answer("enrich", "customers/2", { service_pid: "p-d", match_score: "80.50", last_matched_at: LATER }),
      answer("enrich", "customers/3", { service_pid: "p-e", match_score: "60" }),
      answer("enrich", "customers/4", { service_pid: "p-f", match_score: "50" }),
      answer("enrich_again", "customers/4", { service_pid: "p-g", match_score: "50" }),
    ],
    ["job", "source", "source_key"],
    "enrichment",
  ),
  {
    table: "person",
    // Without the person that other tests publish.
    keys: ["p-a", "p-b", "p-c", "p-d", "p1"].map((pid) => ({ service_pid: pid })),
    rows: ["p-a", "p-b", "p-c", "p-d"].map((pid) => ({
      service_pid: pid,
      full_name: pid === "p-d" ? null : `Person ${pid}`,
      _record_synced_at: AT,
      _synced_at: AT,
      _run_id: "r",
    })),
  },
  ofPeople("person_email", [
    address("p-a", "personal", 1, "Refused@Home.example"),
    address("p-a", "personal", 2, "unasked@home.example"),
    address("p-a", "professional", 1, "Ana@Work.example"),
    address("p-b", "professional", 1, "ben@work.example"),
    address("p-b", "personal", null, "ben@home.example"),
    address("p-b", "personal", 7, "Ben7@home.example"),
    address("p-b", "personal", 7, "ben7b@home.example"),
    address("p-c", "personal", 1, "refused@home.example"),
    address("p-d", "personal", 1, null),
  ]),
  stored(
    [
      { email_address: "refused@home.example", email_validation_status: "invalid" },
      { email_address: "ana@work.example", email_validation_status: "valid" },
      { email_address: "ANA@work.example", email_validation_status: "valid" },
      { email_address: "ben7@home.example", email_validation_status: "unknown" },
    ],
    ["email_address"],
    "email_validation",
  ),
  ofPeople("person_phone", [
    { service_pid: "p-a", phone_rank: null, phone_number: "+1 0" },
    { service_pid: "p-a", phone_rank: 2, phone_number: "+1 1", phone_type: "mobile" },
    { service_pid: "p-a", phone_rank: 2, phone_number: "+1 2" },
    { service_pid: "p-h", phone_rank: 1, phone_number: "+1 5", phone_type: "landline" },
  ]),
  ofPeople("person_address", [
    { service_pid: "p-a", address_rank: 2, address_city: "Peoria" },
    { service_pid: "p-a", address_rank: 1, address_city: "Springfield", address_line_1: "3 Ash" },
    { service_pid: "p-b", address_rank: null, address_city: "Joliet" },
    { service_pid: "p-h", address_rank: 1, address_city: "Salem", address_zipcode: "01970" },
  ]),
  ofPeople("person_work_experience", [
    job("p-a", 1, "previous", "Clerk"),
    job("p-a", 3, "current", "Actuary"),
    job("p-a", 2, "current", "Head of Actuaries"),
    job("p-b", 1, "previous", "Nurse"),
    { ...job("p-h", 1, "current", "Pilot"), work_company_name: "Acme", work_start_on: "2019-04-01" },
  ]),
  stored(
    [
      former(
        "p-a",
        "work_experience",
        [1, 2],
        [
          formerJob(3, "current", "Bolt", "Temp"),
          formerJob(2, "current", "Acme", "Clerk"),
          formerJob(1, "previous", "Old", "Boss"),
        ],
      ),
      former("p-a", "work_experience", [2, 3], [formerJob(2, "current", "Acme", "Clerk")]),
      former("p-a", "work_experience", [3, 4], [formerJob(2, "current", "Acme", "Boss")]),
      former("p-b", "work_experience", [1, 2], []),
      former("p-c", "work_experience", [1, 2], [formerJob(1, "current", "Acme", "Nurse")]),
      former("p-c", "work_experience", [2, 3], null),
      former(
        "p-a",
        "address_history",
        [1, 2],
        [
          { address_rank: 2, address_city: "Peoria", address_line_1: "2 Oak" },
          { address_rank: 1, address_city: "Joliet", address_line_1: "1 Elm" },
        ],
      ),
      former("p-b", "address_history", [1, 2], []),
      former(
        "p-a",
        "phones",
        [1, 2],
        [{ phone_number: "+1 0" }, { phone_number: "+1 9" }, { phone_number: "+1 9" }],
      ),
      former("p-a", "phones", [2, 3], [{ phone_number: "+1 1" }, { phone_number: "+1 0" }]),
      former(
        "p-b",
        "personal_emails",
        [1, 2],
        [
          { email_address: "ben@home.example" },
          { email_address: "Ben7@home.example" },
          { email_address: "ben7b@home.example" },
          { email_address: "old@home.example" },
        ],
      ),
      former("p-b", "professional_emails", [1, 2], null),
      former("p-a", "scalars", [1, 2], null),
    ],
    ["service_pid", "field_group", "valid_from"],
    "person_history",
  ),
  stored(
    [
      { obituary_id: "o-1", service_pid: "p-b", date_of_death: "2026-10-01", signal_source: "ssdi" },
      { obituary_id: "o-2", service_pid: "p-b", date_of_death: null },
      { obituary_id: "o-3", service_pid: "p-x", date_of_death: null },
    ],
    ["obituary_id", "service_pid"],
    "death_signal",
  ),
  stored(
    [
      { segment_id: "s-1", obituary_id: "o-1", service_pid: "p-b", first_seen_at: LATER, is_present: true },
      { segment_id: "s-2", obituary_id: "o-1", service_pid: "p-b", first_seen_at: AT, is_present: true },
      { segment_id: "s-1", obituary_id: "o-2", service_pid: "p-b", first_seen_at: AT, is_present: false },
      { segment_id: "s-1", obituary_id: "o-3", service_pid: "p-x", first_seen_at: AT, is_present: true },
    ],
    ["segment_id", "obituary_id", "service_pid"],
    "segment_death_signal",
  ),
  ofPeople("person_education_experience", [
    { service_pid: "p-a", institution_name: "Illinois", education_majors: ["Music"], education_minors: [] },
    { service_pid: "p-b", institution_name: null, education_majors: [], education_minors: [] },
  ]),
];

const viewsOf = (input: string, key: readonly KeyColumn[]) => [linkView(input, key), profileView(input, key)];

/** Views of two inputs. */
export const inputViews = [
  ...viewsOf("customers", [{ name: "id", type: "integer" }]),
  ...viewsOf("orders", [
    { name: "day", type: "date" },
    { name: "number", type: "text" },
  ]),
];

/** Queries of views, with the rows that they have in every engine, as {@link shownRow} shows them. `NAME` in braces is the view's name. */
export const viewResults: readonly (readonly [query: string, rows: readonly string[]])[] = [
  [
    "SELECT source, source_key, service_pid, job FROM {identity_link} ORDER BY source, source_key",
    [
      "customers | 1 | p-b | enrich",
      "customers | 2 | p-d | enrich",
      "customers | 3 | p-e | enrich",
      "customers | 4 | p-f | enrich",
      "customers | 7 | p-c | resolve",
      "leads | 1 | p-b | resolve",
      "orders | K-1 | p-i | resolve",
      'orders | ["2026-01-02", "K-1"] | p-h | resolve',
    ],
  ],
  [
    "SELECT id + 1 AS next, service_pid FROM {link_customers} WHERE id < 3 ORDER BY id",
    ["2 | p-b", "3 | p-d"],
  ],
  [
    "SELECT day, number, service_pid FROM {link_orders} ORDER BY service_pid",
    ["2026-01-02 | K-1 | p-h", "NULL | NULL | p-i"],
  ],
  [
    `SELECT id + 1 AS next, full_name, email_address, email_validation_status, address_city, work_title, is_deceased, date_of_death,
       last_response_at = matched_at AS is_same, last_changed_at = (SELECT max(valid_to) AS max_to FROM {person_history} WHERE service_pid = 'p-b') AS is_last
     FROM {profile_customers} WHERE id < 3 ORDER BY id`,
    [
      "2 | Person p-b | Ben7@home.example | unknown | Joliet | NULL | true | 2026-10-01 | true | true",
      "3 | NULL | NULL | NULL | NULL | NULL | false | NULL | true | NULL",
    ],
  ],
  [
    `SELECT day, number, service_pid, full_name, phone_number, phone_type, address_city, address_zipcode, work_company_name, work_title, work_start_on,
       is_deceased, last_response_at FROM {profile_orders} ORDER BY service_pid`,
    [
      "2026-01-02 | K-1 | p-h | NULL | +1 5 | landline | Salem | 01970 | Acme | Pilot | 2019-04-01 | false | NULL",
      "NULL | NULL | p-i | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | false | NULL",
    ],
  ],
  ["SELECT source_key FROM {identity_link} WHERE service_pid = 'p-a'", []],
  [
    "SELECT source, source_key, service_pid, input_rows FROM {duplicate_input_row} ORDER BY source",
    ["customers | 1 | p-b | 2", "leads | 1 | p-b | 2"],
  ],
  [
    "SELECT service_pid, email_address, email_type, email_rank, email_validation_status FROM {person_best_email} ORDER BY service_pid",
    [
      "p-a | Ana@Work.example | professional | 1 | valid",
      "p-b | Ben7@home.example | personal | 7 | unknown",
      "p-c | refused@home.example | personal | 1 | invalid",
    ],
  ],
  [
    "SELECT service_pid, phone_number, phone_type, phone_rank FROM {person_best_phone} ORDER BY service_pid",
    ["p-a | +1 1 | mobile | 2", "p-h | +1 5 | landline | 1"],
  ],
  [
    "SELECT service_pid, position, address_city FROM {person_current_address} ORDER BY service_pid",
    ["p-a | 1 | Springfield", "p-b | 0 | Joliet", "p-h | 0 | Salem"],
  ],
  [
    "SELECT service_pid, position, work_title FROM {person_current_job} ORDER BY service_pid",
    ["p-a | 2 | Head of Actuaries", "p-h | 0 | Pilot"],
  ],
  [
    `SELECT service_pid, old_work_company_name, old_work_title, new_work_company_name, new_work_title
     FROM {person_job_change} ORDER BY service_pid, changed_at`,
    [
      "p-a | Acme | Clerk | Acme | Boss",
      "p-a | Acme | Boss | NULL | Head of Actuaries",
      "p-c | Acme | Nurse | NULL | NULL",
    ],
  ],
  [
    "SELECT service_pid, old_address_line_1, old_address_city, new_address_line_1, new_address_city FROM {person_move}",
    ["p-a | 1 Elm | Joliet | 3 Ash | Springfield"],
  ],
  [
    `SELECT c.service_pid, c.field_group, c.change_type, c.contact, count(h.valid_to) AS histories
     FROM {person_contact_change} AS c JOIN {person_history} AS h
       ON h.service_pid = c.service_pid AND h.field_group = c.field_group AND h.valid_to = c.changed_at
     GROUP BY c.service_pid, c.field_group, c.change_type, c.contact, c.changed_at ORDER BY c.service_pid, c.changed_at, c.contact`,
    [
      "p-a | phones | added | +1 1 | 1",
      "p-a | phones | removed | +1 9 | 1",
      "p-a | phones | added | +1 2 | 1",
      "p-b | personal_emails | removed | old@home.example | 1",
    ],
  ],
  [
    "SELECT source, source_key, service_pid, obituary_id, signal_source, first_seen_at = min_at AS is_first FROM {deceased_customer} CROSS JOIN (SELECT min(first_seen_at) AS min_at FROM {segment_death_signal}) AS m ORDER BY source",
    ["customers | 1 | p-b | o-1 | ssdi | true", "leads | 1 | p-b | o-1 | ssdi | true"],
  ],
  [
    `SELECT column_name, "rows", rows_known FROM {field_coverage}
     WHERE table_name = 'person' AND column_name IN ('full_name', 'dob') ORDER BY column_name`,
    ["dob | 4 | 0", "full_name | 4 | 3"],
  ],
  [
    `SELECT column_name, "rows", rows_known FROM {field_coverage}
     WHERE table_name = 'person_education_experience' AND column_name LIKE 'education_m%' ORDER BY column_name`,
    ["education_majors | 2 | 1", "education_minors | 2 | 0"],
  ],
];

/** Text of a query, with the names of its views. */
export function queryOf(query: string, ref: (view: string) => string): string {
  return query.replaceAll(/\{(\w+)\}/g, (_, view: string) => ref(view));
}

/** Text of a row, with bars between its values. */
export const shownRow = (row: object) =>
  Object.values(row)
    .map((value) => (value === null ? "NULL" : String(value)))
    .join(" | ");
