import { inputRow } from "../answer.ts";
import { date, type Fields, numeric, prefixed, text, timestamptz } from "../field.ts";
import { type Dialect, type View, view } from "./view.ts";

type Ref = (name: string) => string;

/** Query of the items of lists in `h`, rows of `person_history` that are arrays: some columns of the row, then `item` and its 0-based `place`. */
function itemsOf(dialect: Dialect, columns: readonly string[], from: string): string {
  const head = `SELECT ${columns.map((name) => `h.${name}`).join(", ")}`;
  if (dialect === "duckdb") {
    return `${head}, unnest(CAST(h.content AS json[])) AS item, unnest(range(CAST(json_array_length(h.content) AS bigint))) AS place FROM ${from}`;
  }
  if (dialect === "spark") {
    return `${head}, s.item, s.place FROM ${from} LATERAL VIEW posexplode(from_json(h.content, 'array<string>')) s AS place, item`;
  }
  if (dialect === "bigquery") {
    return `${head}, item, place FROM ${from} CROSS JOIN UNNEST(json_query_array(h.content)) AS item WITH OFFSET AS place`;
  }
  return `${head}, i.item, i.place FROM ${from} CROSS JOIN LATERAL jsonb_array_elements(h.content) WITH ORDINALITY AS i(item, place)`;
}

/** Text of a field of `item`. */
function fieldOf(dialect: Dialect, name: string): string {
  if (dialect === "postgres") return `item ->> '${name}'`;
  const read = { bigquery: "json_value", duckdb: "json_extract_string", spark: "get_json_object" }[dialect];
  return `${read}(item, '$.${name}')`;
}

interface FirstItem {
  /** Field group of the list. */
  readonly group: string;
  /** Field by which the items are ordered before their place in the list. */
  readonly rank: string;
  /** Field and value that items must have. */
  readonly only?: readonly [field: string, value: string];
  /** Texts of the item that are shown, and differ in a change. */
  readonly fields: readonly string[];
  /** View of the item that is first now. */
  readonly current: string;
  /** Field without which an item is unknown, and no change from or to it is shown; null to show each. */
  readonly known: string | null;
}

/** Query of the changes of the first item of a list. */
function firstItemChanges(
  dialect: Dialect,
  ref: Ref,
  { group, rank, only, fields, current, known }: FirstItem,
): string {
  const list = (each: (name: string) => string) => fields.map(each).join(", ");
  const history = ref("person_history");
  const next = "OVER (PARTITION BY h.service_pid ORDER BY h.valid_from)";
  const items = itemsOf(
    dialect,
    ["service_pid", "valid_from"],
    `(SELECT * FROM ${history} WHERE field_group = '${group}') AS h`,
  );
  const isShown = only ? `WHERE ${fieldOf(dialect, only[0])} = '${only[1]}'` : "";
  const differs = fields.map((name) => `old_${name} IS DISTINCT FROM new_${name}`).join(" OR ");
  const areKnown = known === null ? "" : `old_${known} IS NOT NULL AND new_${known} IS NOT NULL AND `;
  return `SELECT service_pid, changed_at, old_since, ${list((name) => `old_${name}`)}, ${list((name) => `new_${name}`)}
FROM (
  SELECT s.service_pid, s.changed_at, s.old_since, ${list((name) => `s.old_${name}`)},
    ${list((name) => `CASE WHEN s.next_from IS NULL THEN c.${name} ELSE s.next_${name} END AS new_${name}`)}
  FROM (
    SELECT h.service_pid, h.valid_to AS changed_at, h.valid_from AS old_since, lead(h.valid_from) ${next} AS next_from,
      ${list((name) => `f.${name} AS old_${name}, lead(f.${name}) ${next} AS next_${name}`)}
    FROM ${history} AS h
    LEFT JOIN (
      SELECT * FROM (
        SELECT service_pid, valid_from, ${list((name) => `${fieldOf(dialect, name)} AS ${name}`)},
          row_number() OVER (PARTITION BY service_pid, valid_from
            ORDER BY CAST(${fieldOf(dialect, rank)} AS ${dialect === "bigquery" ? "int64" : "bigint"}) NULLS LAST, place) AS nth
        FROM (${items}) AS i ${isShown}) AS ranked
      WHERE nth = 1) AS f ON f.service_pid = h.service_pid AND f.valid_from = h.valid_from
    WHERE h.field_group = '${group}' AND h.content IS NOT NULL) AS s
  LEFT JOIN ${ref(current)} AS c ON c.service_pid = s.service_pid) AS changed
WHERE ${areKnown}(${differs})`;
}

/** Declares a view of the changes of the first item of a list. */
function changesOf<const Name extends string, F extends Fields>(
  name: Name,
  doc: string,
  item: Omit<FirstItem, "fields">,
  fields: F,
) {
  return view(name, {
    schema: "data",
    doc: `${doc} Erased content is not included.`,
    columns: {
      service_pid: text("direct", "PID of the person."),
      changed_at: timestamptz("none", "When the change was stored; it happened some time before."),
      old_since: timestamptz("none", "When the list with the old value was stored."),
      ...prefixed("old_", fields),
      ...prefixed("new_", fields),
    },
    reads: ["person_history", item.current],
    select: (dialect, ref) => firstItemChanges(dialect, ref, { ...item, fields: Object.keys(fields) }),
  });
}

export const personJobChange = changesOf(
  "person_job_change",
  "Changes of people's current job (`person_current_job`): another company or title. Null if no current job was known.",
  {
    group: "work_experience",
    rank: "experience_rank",
    only: ["work_status", "current"],
    current: "person_current_job",
    known: null,
  },
  {
    work_company_name: text("indirect", "Name of the employer."),
    work_title: text("indirect", "Job title."),
  },
);

export const personMove = changesOf(
  "person_move",
  "Changes of people's current address (`person_current_address`), from one known address to another.",
  {
    group: "address_history",
    rank: "address_rank",
    current: "person_current_address",
    known: "address_line_1",
  },
  {
    address_line_1: text("direct", "Street and number."),
    address_city: text("indirect", "City of the address."),
    address_state: text("indirect", "State of the address."),
    address_zipcode: text("indirect", "ZIP code of the address."),
  },
);

/** Lists of contacts: field group, field of the value, and table with a condition for its rows. */
const contacts = [
  ["personal_emails", "email_address", "person_email", "WHERE email_type = 'personal'"],
  ["professional_emails", "email_address", "person_email", "WHERE email_type = 'professional'"],
  ["phones", "phone_number", "person_phone", ""],
] as const;

export const personContactChange = view("person_contact_change", {
  schema: "data",
  doc: "E-mail addresses and phones that were added to people or removed from them. Erased content is not included.",
  columns: {
    service_pid: text("direct", "PID of the person."),
    changed_at: timestamptz("none", "When the change was stored."),
    field_group: text("none", "`personal_emails`, `professional_emails` or `phones`."),
    change_type: text("none", "`added` or `removed`."),
    contact: text("direct", "The e-mail address or phone number."),
  },
  reads: ["person_history", "person_email", "person_phone"],
  select: (dialect, ref) => {
    const groups = contacts.map(([group]) => `'${group}'`).join(", ");
    const history = `(SELECT * FROM ${ref("person_history")} WHERE field_group IN (${groups}) AND content IS NOT NULL)`;
    const ofGroup = "OVER (PARTITION BY service_pid, field_group ORDER BY valid_from)";
    const numbered = `(SELECT service_pid, field_group, content, valid_to AS ended_at, row_number() ${ofGroup} AS nth,
        lag(valid_to) ${ofGroup} AS began_at FROM ${history} AS n) AS h`;
    const columns = ["service_pid", "field_group", "nth", "began_at", "ended_at"];
    const values = contacts.map(([group, field]) => `WHEN '${group}' THEN ${fieldOf(dialect, field)}`);
    const former = `SELECT ${columns.join(", ")}, CASE field_group ${values.join(" ")} END AS contact
      FROM (${itemsOf(dialect, columns, numbered)}) AS i`;
    const isZoned = dialect === "postgres" || dialect === "duckdb";
    const unended = `CAST(NULL AS timestamp${isZoned ? " with time zone" : ""})`;
    const now = contacts.map(
      ([
        group,
        field,
        table,
        where,
      ]) => `SELECT l.service_pid, l.field_group, l.nth, l.began_at, ${unended}, t.${field}
      FROM (SELECT service_pid, field_group, count(*) + 1 AS nth, max(valid_to) AS began_at FROM ${history} AS l
        WHERE field_group = '${group}' GROUP BY service_pid, field_group) AS l
      JOIN (SELECT service_pid, ${field} FROM ${ref(table)} ${where}) AS t ON t.service_pid = l.service_pid`,
    );
    const ofContact = "OVER (PARTITION BY service_pid, field_group, contact ORDER BY nth)";
    return `SELECT service_pid, CASE change_type WHEN 'added' THEN began_at ELSE ended_at END AS changed_at, field_group, change_type, contact
FROM (
  SELECT d.*, lag(nth) ${ofContact} AS before_nth, lead(nth) ${ofContact} AS after_nth
  FROM (SELECT DISTINCT * FROM (
      ${[former, ...now].join("\n      UNION ALL ")}) AS u WHERE contact IS NOT NULL) AS d) AS s
CROSS JOIN (SELECT 'added' AS change_type UNION ALL SELECT 'removed') AS c
WHERE change_type = 'added' AND nth > 1 AND (before_nth IS NULL OR before_nth <> nth - 1)
  OR change_type = 'removed' AND ended_at IS NOT NULL AND (after_nth IS NULL OR after_nth <> nth + 1)`;
  },
});

export const deceasedCustomer = view("deceased_customer", {
  schema: "data",
  doc: "Input rows whose best current match was reported as deceased by a segment, one row per death signal.",
  columns: {
    ...inputRow,
    service_pid: text("direct", "PID of the match."),
    match_score: numeric("none", "Score of the match."),
    obituary_id: text("indirect", "Stable ID of the obituary."),
    date_of_death: date("sensitive", "Day of death; may be filled or corrected later."),
    signal_source: text("none", "`obituary_database`, `ssdi` or `public_records`."),
    signal_confidence_score: numeric("none", "Confidence in the signal, from 0 to 1."),
    first_seen_at: timestamptz("none", "When a response first reported the signal."),
  },
  reads: ["identity_link", "segment_death_signal", "death_signal"],
  select: (
    _,
    ref,
  ) => `SELECT l.source, l.source_key, l.service_pid, l.match_score, d.obituary_id, d.date_of_death, d.signal_source,
  d.signal_confidence_score, s.first_seen_at
FROM (
  SELECT obituary_id, service_pid, min(first_seen_at) AS first_seen_at FROM ${ref("segment_death_signal")}
  WHERE is_present GROUP BY obituary_id, service_pid) AS s
JOIN ${ref("death_signal")} AS d ON d.obituary_id = s.obituary_id AND d.service_pid = s.service_pid
JOIN ${ref("identity_link")} AS l ON l.service_pid = s.service_pid`,
}) satisfies View;
