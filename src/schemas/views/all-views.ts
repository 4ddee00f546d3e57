import { billedRecords } from "../billing.ts";
import { withJoins } from "../joins.ts";
import { personChildren } from "../person.ts";
import { column } from "../table.ts";
import { pathOf, utcDay, whole } from "./dialect.ts";
import { fieldCoverage } from "./field-coverage.ts";
import { selectFirst } from "./first-rows.ts";
import type { Dialect, View } from "./view.ts";

/** Declares a view of one row per person: the first row of a child table, in an order, with all or some of its columns. */
function firstOfPerson(
  view: Pick<View, "name" | "doc">,
  tableName: string,
  {
    columns: wanted,
    ...first
  }: {
    readonly columns?: readonly string[];
    readonly orderBy: readonly string[];
    readonly where?: (alias: string) => string;
  },
): View {
  const all = personChildren.find(({ name }) => name === tableName)?.columns ?? [];
  const columns = wanted?.flatMap((name) => all.filter((column) => column.name === name)) ?? all;
  return {
    ...view,
    schema: "data",
    columns,
    reads: [tableName],
    select: (_, ref) =>
      selectFirst({
        from: ref(tableName),
        columns: columns.map(({ name }) => name),
        groupBy: ["service_pid"],
        ...first,
      }),
  };
}

/** Best phone of each person. */
const personBestPhone = firstOfPerson(
  {
    name: "person_best_phone",
    doc: "Best phone of each person: lowest `phone_rank`, then lowest `position`.",
  },
  "person_phone",
  {
    columns: ["service_pid", "phone_number", "phone_type", "phone_rank"],
    orderBy: ["phone_rank", "position"],
    where: (alias) => `${alias}.phone_number IS NOT NULL`,
  },
);

/** Current address of each person. */
const personCurrentAddress = firstOfPerson(
  {
    name: "person_current_address",
    doc: "Current address of each person: lowest `address_rank`, then lowest `position`.",
  },
  "person_address",
  { orderBy: ["address_rank", "position"] },
);

/** Current job of each person. */
const personCurrentJob = firstOfPerson(
  {
    name: "person_current_job",
    doc:
      "Current job of each person: of those with `work_status` = `current`, lowest `experience_rank`, then lowest `position`. People " +
      "without a current job have no row.",
  },
  "person_work_experience",
  { orderBy: ["experience_rank", "position"], where: (alias) => `${alias}.work_status = 'current'` },
);

/** Exact product of a number of records and a price. */
const product = (dialect: Dialect, records: string, price: string) =>
  // DuckDB refuses products of more than 38 digits.
  dialect === "duckdb"
    ? `CAST(${records} AS decimal(18, 0)) * CAST(${price} AS decimal(18, 6))`
    : `${records} * ${price}`;

/** Cost of the ledger's calls. */
const costDaily: View = {
  name: "cost_daily",
  schema: "ops",
  doc: "Billed records and their cost by UTC day, endpoint, job and price; a day on which a price changed has a row for each price.",
  columns: [
    column(
      "day",
      "date",
      "none",
      "UTC day on which the records were reserved; budgets count them on this day.",
    ),
    column("endpoint", "text", "none", "Path without its leading slash, as in `usage_reconciliation`."),
    column("job", "text", "none", "The job."),
    column(
      "records_sent",
      "integer",
      "none",
      "Records in calls that were answered or may have been billed; budgets count them.",
    ),
    column(
      "records_billed",
      "integer",
      "none",
      "Records billed: addresses answered, matches of other jobs, charges of unlocks.",
    ),
    column(
      "possibly_billed",
      "integer",
      "none",
      "Further records that may have been billed: calls without an answer, records without a result.",
    ),
    column("price", "numeric", "none", "Price of one billed record; null if `prices` had none."),
    column("amount", "numeric", "none", "`records_billed` at this price, exact; null without a price."),
    column("currency", "text", "none", "Currency of the price, ISO 4217."),
  ],
  reads: ["api_call"],
  select: (dialect, ref) => `SELECT day, endpoint, job, records_sent, records_billed, possibly_billed, price,
  ${product(dialect, "records_billed", "price")} AS amount, currency
FROM (
  SELECT day, endpoint, job, ${whole(dialect, "sum(records_reserved)")} AS records_sent,
    ${whole(dialect, "sum(billed)")} AS records_billed, ${whole(dialect, "sum(records_in_doubt)")} AS possibly_billed,
    price, currency
  FROM (
    SELECT ${utcDay(dialect, "reserved_at")} AS day, ${pathOf(dialect)} AS endpoint, job, records_reserved, records_in_doubt,
    ${billedRecords} AS billed, price, currency
    FROM ${ref("api_call")} WHERE budget IS NOT NULL) AS c
  GROUP BY day, endpoint, job, price, currency) AS d`,
};

/** Input rows of the same person. */
const duplicateInputRow: View = {
  name: "duplicate_input_row",
  schema: "data",
  doc: "Input rows whose best current match is the same person as that of another input row.",
  columns: [
    column("source", "text", "none", "Name of the input."),
    column("source_key", "text", "direct", "The input row's key as text."),
    column("service_pid", "text", "direct", "PID that the rows share."),
    column("input_rows", "integer", "none", "Number of input rows with this PID, of all inputs; at least 2."),
  ],
  reads: ["identity_link"],
  select: (_, ref) => `SELECT source, source_key, service_pid, input_rows
FROM (
  SELECT source, source_key, service_pid, count(*) OVER (PARTITION BY service_pid) AS input_rows
  FROM ${ref("identity_link")}) AS linked
WHERE input_rows > 1`,
};

/** Best current match of each input row. */
const identityLink: View = {
  name: "identity_link",
  schema: "data",
  doc: "Best current match of each input row: highest score, then newest match, then first job by name.",
  columns: [
    column("source", "text", "none", "Name of the input."),
    column(
      "source_key",
      "text",
      "direct",
      'The input row\'s key as text; of several columns a JSON array of texts, such as ["2", "K-000097"].',
    ),
    column("service_pid", "text", "direct", "PID of the match."),
    column("job", "text", "none", "Job that found the match."),
    column("match_score", "numeric", "none", "Score of the match."),
    column("matched_at", "timestamptz", "none", "When the row was last matched."),
  ],
  reads: ["resolution", "enrichment"],
  select: (_, ref) => {
    const answers = ["resolution", "enrichment"].map(
      (
        table,
      ) => `  SELECT source, source_key, service_pid, job, match_score, last_matched_at AS matched_at, is_present
  FROM ${ref(table)}`,
    );
    return selectFirst({
      from: `(\n${answers.join("\n  UNION ALL\n")})`,
      columns: ["source", "source_key", "service_pid", "job", "match_score", "matched_at"],
      groupBy: ["source", "source_key"],
      orderBy: ["match_score DESC", "matched_at DESC", "job"],
      // Within the UNION ALL, this would keep Postgres from using the index of the key.
      where: (alias) => `${alias}.is_present AND ${alias}.service_pid IS NOT NULL`,
    });
  },
};

/** Best e-mail address of each person. */
const personBestEmail: View = {
  name: "person_best_email",
  schema: "data",
  doc:
    "Best e-mail address of each person: `valid` ones first, then those not known to be invalid, then `invalid` ones; of these the " +
    "personal ones first, then lowest `email_rank`, then lowest `position`. Filter on `email_validation_status` before you send.",
  columns: [
    column("service_pid", "text", "direct", "PID of the person."),
    column("email_address", "text", "direct", "E-mail address, as received."),
    column("email_type", "text", "none", "`personal` or `professional`."),
    column("email_rank", "integer", "none", "Rank among the person's addresses of this type."),
    column(
      "email_validation_status",
      "text",
      "none",
      "`valid`, `invalid` or `unknown`; null if the address was not validated, or not known to the service. Upper and lower case are equal.",
    ),
  ],
  reads: ["person_email", "email_validation"],
  // A window, since the order depends on a join: an anti-join of two joins takes minutes on a million people.
  select: (_, ref) => `SELECT service_pid, email_address, email_type, email_rank, email_validation_status
FROM (
  SELECT e.service_pid, e.email_address, e.email_type, e.email_rank, v.email_validation_status,
    row_number() OVER (PARTITION BY e.service_pid ORDER BY
      CASE v.email_validation_status WHEN 'valid' THEN 1 WHEN 'invalid' THEN 3 ELSE 2 END,
      e.email_type, e.email_rank NULLS LAST, e.position) AS place
  FROM ${ref("person_email")} AS e
  LEFT JOIN ${ref("email_validation")} AS v ON lower(v.email_address) = lower(e.email_address)
  WHERE e.email_address IS NOT NULL) AS ranked
WHERE place = 1`,
};

/** One kind of subject of each experience, one row per subject. */
function subjectRows(dialect: Dialect, experience: string, kind: "major" | "minor"): string {
  const list = `education_${kind}s`;
  const head = `SELECT e.service_pid, e.position AS education_position, '${kind}' AS subject_type`;
  const tail = `e._synced_at, e._run_id\nFROM ${experience} AS e`;
  if (dialect === "duckdb") {
    const place = `CAST(unnest(range(len(e.${list}))) AS integer)`;
    return `${head}, ${place} AS position, unnest(e.${list}) AS subject, ${tail}`;
  }
  if (dialect === "bigquery") {
    return `${head}, place AS position, subject, ${tail} CROSS JOIN UNNEST(e.${list}) AS subject WITH OFFSET AS place`;
  }
  const rows = `CROSS JOIN LATERAL unnest(e.${list}) WITH ORDINALITY AS s(subject, place)`;
  return `${head}, (s.place - 1)::integer AS position, s.subject, ${tail} ${rows}`;
}

/** Subjects of education as rows. */
const personEducationSubject: View = {
  name: "person_education_subject",
  schema: "data",
  doc: "Majors and minors of `person_education_experience`, one row per subject.",
  columns: [
    column("service_pid", "text", "direct", "PID of the person."),
    column("education_position", "position", "none", "`position` of the experience."),
    column("subject_type", "text", "none", "`major` or `minor`."),
    column("position", "position", "none", "0-based index in the list."),
    column("subject", "text", "indirect", "Name of the subject."),
    column("_synced_at", "timestamptz", "none", "When the experience last changed."),
    column("_run_id", "text", "none", "Run that last changed the experience."),
  ],
  reads: ["person_education_experience"],
  select: (dialect, ref) =>
    (["major", "minor"] as const)
      .map((kind) => subjectRows(dialect, ref("person_education_experience"), kind))
      .join("\nUNION ALL\n"),
};

/** Freshness of each table; in a destination this is a table of the same name. */
const tableFreshness: View = {
  name: "table_freshness",
  schema: "ops",
  doc: "When each table was last loaded and changed; incremental readers can read up to `safe_until`.",
  columns: [
    column("table_name", "text", "none", "The table."),
    column(
      "last_success_at",
      "timestamptz",
      "none",
      "End of the last success; runs that ended at your own cap or budget are included.",
    ),
    column("last_changed_at", "timestamptz", "none", "Last change of a row."),
    column("safe_until", "timestamptz", "none", "Every row with an older `_synced_at` is committed."),
  ],
  reads: ["sync_run", "table_load"],
  // Rows that are not committed yet have a `_synced_at` after the start of the run, or command, that writes them.
  select: (
    _,
    ref,
  ) => `SELECT table_name, max(last_success_at) AS last_success_at, max(last_changed_at) AS last_changed_at,
  coalesce((SELECT min(r.started_at) FROM ${ref("sync_run")} AS r WHERE r.status = 'running'), now()) AS safe_until
FROM ${ref("table_load")} GROUP BY table_name`,
};

const countOf = (outcome: string) => `sum(CASE WHEN outcome = '${outcome}' THEN 1 ELSE 0 END)`;

/** Compares the ledger with the usage reported by the service. */
const usageReconciliation: View = {
  name: "usage_reconciliation",
  schema: "ops",
  doc: "Calls in the ledger and usage reported by the service, by endpoint and UTC day. The service counts the whole organization.",
  columns: [
    column("endpoint", "text", "none", "Path without its leading slash, as the service reports it."),
    column("day", "date", "none", "UTC day."),
    column("ours", "integer", "none", "Answered calls in the ledger; null for days removed by `retention`."),
    column("reported", "integer", "none", "Requests reported by the service; null if it reported none."),
    column("not_ours", "integer", "none", "`reported` minus `ours`."),
    column("ours_records", "integer", "none", "Records in answered calls of the ledger."),
    column("reported_records", "integer", "none", "Input records reported by the service."),
    column("ours_in_doubt", "integer", "none", "Calls in the ledger without a known outcome."),
    column("is_final", "boolean", "none", "True once the service no longer changes the day."),
    column("ours_refused", "integer", "none", "Calls in the ledger rejected by the service."),
  ],
  reads: ["api_call", "endpoint_usage_bucket", "warehouse_identity"],
  select: (
    dialect,
    ref,
  ) => `SELECT endpoint, day, CASE WHEN is_kept THEN coalesce(answered, 0) END AS ours, reported,
  reported - CASE WHEN is_kept THEN coalesce(answered, 0) END AS not_ours,
  CASE WHEN is_kept THEN coalesce(records, 0) END AS ours_records, reported_records,
  CASE WHEN is_kept THEN coalesce(in_doubt, 0) END AS ours_in_doubt, is_final,
  CASE WHEN is_kept THEN coalesce(refused, 0) END AS ours_refused
FROM (
  SELECT coalesce(o.endpoint, r.endpoint) AS endpoint, coalesce(o.day, r.day) AS day, o.answered, o.records, o.in_doubt, o.refused,
    r.total_requests AS reported, r.num_input_records AS reported_records, r.is_final,
    coalesce(coalesce(o.day, r.day) > (SELECT max(${utcDay(dialect, "ledger_from")}) FROM ${ref("warehouse_identity")}), true) AS is_kept
  FROM (
    SELECT endpoint, day, ${whole(dialect, countOf("answered"))} AS answered,
      ${whole(dialect, "sum(CASE WHEN outcome = 'answered' THEN records_sent ELSE 0 END)")} AS records,
      ${whole(dialect, countOf("in_doubt"))} AS in_doubt, ${whole(dialect, countOf("refused"))} AS refused
    FROM (
      SELECT ${pathOf(dialect)} AS endpoint, records_sent,
        ${utcDay(dialect, "coalesce(request_completed_at, started_at)")} AS day,
        CASE WHEN http_status = 200 THEN 'answered'
          WHEN http_status IS NULL AND NOT coalesce(is_sent, possibly_billed) THEN 'not_sent'
          WHEN http_status = 503 OR http_status BETWEEN 300 AND 499 AND http_status <> 408 THEN 'refused'
          ELSE 'in_doubt' END AS outcome
      FROM ${ref("api_call")}) AS c
    GROUP BY endpoint, day) AS o
  FULL JOIN (
    SELECT endpoint, ${utcDay(dialect, "bucket_start")} AS day, total_requests, num_input_records, is_final
    FROM ${ref("endpoint_usage_bucket")} WHERE bucketing_size = 'day' AND timezone = 'UTC') AS r
  ON o.endpoint = r.endpoint AND o.day = r.day) AS both_sides`,
};

/** Every declared view, each after those that it reads. */
export const views: readonly View[] = [
  identityLink,
  duplicateInputRow,
  personBestEmail,
  personBestPhone,
  personCurrentAddress,
  personCurrentJob,
  personEducationSubject,
  fieldCoverage,
  costDaily,
  tableFreshness,
  usageReconciliation,
].map((view) => ({ ...view, columns: withJoins(view) }));
