import { testNights } from "./cases.ts";
import { linked, noMatch, refreshing, rows } from "./enrichment.ts";
import { names, put } from "./night.ts";

const history =
  "SELECT source_key, row_number() OVER (PARTITION BY source_key ORDER BY valid_from), is_match, service_pid, valid_to IS NULL FROM match_history";

testNights("is_present", {
  "is false of a row that left, and true again when it returns, without a call": [
    {
      edit: names("Ann", "Bob"),
      sent: ["Ann", "Bob"],
      tables: { [rows]: ["1|p-ann|t|t", "2|p-bob|t|t"] },
    },
    {
      edit: "DELETE FROM crm.customers WHERE id = 1",
      ends: "1 read, 1 unchanged",
      tables: { [rows]: ["1|p-ann|t|f", "2|p-bob|t|t"], [linked]: ["2|p-bob"] },
    },
    {
      edit: put(1, "Ann"),
      ends: "2 read, 2 unchanged",
      tables: { [rows]: ["1|p-ann|t|t", "2|p-bob|t|t"], [linked]: ["1|p-ann", "2|p-bob"] },
    },
  ],
  "is false of a row that changed until its new content is answered": [
    { edit: names("Ann", "Bob"), sent: ["Ann", "Bob"] },
    {
      edit: put(1, "Eve"),
      flags: { maxRecords: 0 },
      ends: "limited (max_records): 2 read, 1 unchanged, 1 remaining",
      tables: { [rows]: ["1|p-ann|t|f", "2|p-bob|t|t"], [linked]: ["2|p-bob"] },
    },
    { sent: ["Eve"], tables: { [rows]: ["1|p-eve|t|t", "2|p-bob|t|t"] } },
  ],
});

testNights("match_history", {
  "has one open interval of each answered row, and grows only when the match changes": [
    {
      config: refreshing,
      edit: names("Ann", "Nobody"),
      sent: ["Ann", "Nobody"],
      tables: { [history]: ["1|1|t|p-ann|t", "2|1|f||t"] },
    },
    { days: 10, sent: ["Ann", "Nobody"], tables: { [history]: ["1|1|t|p-ann|t", "2|1|f||t"] } },
    {
      edit: put(1, "Eve"),
      sent: ["Eve"],
      tables: { [history]: ["1|1|t|p-ann|f", "1|2|t|p-eve|t", "2|1|f||t"] },
    },
  ],
  "records a lost match and a new one without a gap": [
    { config: refreshing, edit: names("Ann"), sent: ["Ann"] },
    { days: 10, service: noMatch, sent: ["Ann"], tables: { [history]: ["1|1|t|p-ann|f", "1|2|f||t"] } },
    {
      days: 10,
      sent: ["Ann"],
      tables: {
        [history]: ["1|1|t|p-ann|f", "1|2|f||f", "1|3|t|p-ann|t"],
        "SELECT count(*) FROM match_history AS a JOIN match_history AS b ON b.valid_from = a.valid_to": ["2"],
      },
    },
  ],
});
