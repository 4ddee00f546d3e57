import { inputRow } from "../answer.ts";
import { integer, numeric, position, text, timestamptz } from "../field.ts";
import { person, personChildren } from "../person.ts";
import type { Column, Table } from "../table.ts";
import { type Dialect, quoted, selectFirst, type View, view } from "./view.ts";

export const identityLink = view("identity_link", {
  schema: "data",
  doc: "Best current match of each input row: highest score, then newest match, then first job by name.",
  columns: {
    ...inputRow,
    service_pid: text("direct", "PID of the match."),
    job: text("none", "Job that found the match."),
    match_score: numeric("none", "Score of the match."),
    matched_at: timestamptz("none", "When the row was last matched."),
  },
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
});

export const duplicateInputRow = view("duplicate_input_row", {
  schema: "data",
  doc: "Input rows whose best current match is the same person as that of another input row.",
  columns: {
    source: text("none", "Name of the input."),
    source_key: text("direct", "The input row's key as text."),
    service_pid: text("direct", "PID that the rows share."),
    input_rows: integer("none", "Number of input rows with this PID, of all inputs; at least 2."),
  },
  reads: ["identity_link"],
  select: (_, ref) => `SELECT source, source_key, service_pid, input_rows
FROM (
  SELECT source, source_key, service_pid, count(*) OVER (PARTITION BY service_pid) AS input_rows
  FROM ${ref("identity_link")}) AS linked
WHERE input_rows > 1`,
});

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

export const personBestEmail = view("person_best_email", {
  schema: "data",
  doc:
    "Best e-mail address of each person: `valid` ones first, then those not known to be invalid, then `invalid` ones; of these the " +
    "personal ones first, then lowest `email_rank`, then lowest `position`. Filter on `email_validation_status` before you send.",
  columns: {
    service_pid: text("direct", "PID of the person."),
    email_address: text("direct", "E-mail address, as received."),
    email_type: text("none", "`personal` or `professional`."),
    email_rank: integer("none", "Rank among the person's addresses of this type."),
    email_validation_status: text(
      "none",
      "`valid`, `invalid` or `unknown`; null if the address was not validated, or not known to the service. Compared without regard to case.",
    ),
  },
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
});

/** Best phone of each person. */
export const personBestPhone = firstOfPerson(
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
export const personCurrentAddress = firstOfPerson(
  {
    name: "person_current_address",
    doc: "Current address of each person: lowest `address_rank`, then lowest `position`.",
  },
  "person_address",
  { orderBy: ["address_rank", "position"] },
);

/** Current job of each person. */
export const personCurrentJob = firstOfPerson(
  {
    name: "person_current_job",
    doc:
      "Current job of each person: of those with `work_status` = `current`, lowest `experience_rank`, then lowest `position`. People " +
      "without a current job have no row.",
  },
  "person_work_experience",
  { orderBy: ["experience_rank", "position"], where: (alias) => `${alias}.work_status = 'current'` },
);

/** One kind of subject of each experience, one row per subject. */
function subjectRows(dialect: Dialect, experience: string, kind: "major" | "minor"): string {
  const list = `education_${kind}s`;
  const head = `SELECT e.service_pid, e.position AS education_position, '${kind}' AS subject_type`;
  const tail = `e._synced_at, e._run_id\nFROM ${experience} AS e`;
  if (dialect === "duckdb") {
    const place = `CAST(unnest(range(len(e.${list}))) AS integer)`;
    return `${head}, ${place} AS position, unnest(e.${list}) AS subject, ${tail}`;
  }
  if (dialect === "spark") {
    return `${head}, s.place AS position, s.subject, ${tail} LATERAL VIEW posexplode(e.${list}) s AS place, subject`;
  }
  if (dialect === "bigquery") {
    return `${head}, place AS position, subject, ${tail} CROSS JOIN UNNEST(e.${list}) AS subject WITH OFFSET AS place`;
  }
  const rows = `CROSS JOIN LATERAL unnest(e.${list}) WITH ORDINALITY AS s(subject, place)`;
  return `${head}, (s.place - 1)::integer AS position, s.subject, ${tail} ${rows}`;
}

export const personEducationSubject = view("person_education_subject", {
  schema: "data",
  doc: "Majors and minors of `person_education_experience`, one row per subject.",
  columns: {
    service_pid: text("direct", "PID of the person."),
    education_position: position("none", "`position` of the experience."),
    subject_type: text("none", "`major` or `minor`."),
    position: position("none", "0-based index in the list."),
    subject: text("indirect", "Name of the subject."),
    _synced_at: timestamptz("none", "When the experience last changed."),
    _run_id: text("none", "Run that last changed the experience."),
  },
  reads: ["person_education_experience"],
  select: (dialect, ref) =>
    (["major", "minor"] as const)
      .map((kind) => subjectRows(dialect, ref("person_education_experience"), kind))
      .join("\nUNION ALL\n"),
});

/** People and their lists. */
export const coveredTables: readonly Table[] = [person, ...personChildren];

/** Columns that the service fills, without keys. */
export function fieldsOf({ columns, key }: Table): readonly Column[] {
  return columns.filter(({ name }) => !key.includes(name) && !name.startsWith("_"));
}

const lengthOf: Readonly<Record<Dialect, string>> = {
  postgres: "cardinality",
  bigquery: "array_length",
  duckdb: "len",
  spark: "size",
};

/** One row per field of a table, from a single scan. */
function coverageRows(table: Table, dialect: Dialect, ref: (name: string) => string): string {
  const fields = fieldsOf(table);
  const counts = fields.map(({ name, type }, i) =>
    type === "text[]"
      ? `count(CASE WHEN ${lengthOf[dialect]}(${name}) > 0 THEN 1 END) AS n${i}`
      : `count(${name}) AS n${i}`,
  );
  const names = fields.map(({ name }, i) => `SELECT ${i} AS i, '${name}' AS column_name`);
  const cases = fields.map((_, i) => `WHEN ${i} THEN n${i}`);
  return `SELECT '${table.name}' AS table_name, column_name, all_rows, CASE i ${cases.join(" ")} END AS rows_known
FROM (SELECT count(*) AS all_rows, ${counts.join(", ")} FROM ${ref(table.name)}) AS counted
CROSS JOIN (${names.join(" UNION ALL ")}) AS fields`;
}

export const fieldCoverage = view("field_coverage", {
  schema: "data",
  doc: "Number of known values of each field of people and their lists. Reads whole tables: filter on `table_name`.",
  columns: {
    table_name: text("none", "Table: `person` or one of its lists, such as `person_phone`."),
    column_name: text("none", "Column, without keys."),
    rows: integer("none", "Rows of the table; a keyword in BigQuery, where it needs backticks."),
    rows_known: integer("none", "Rows where the column is neither null nor an empty list."),
  },
  reads: coveredTables.map(({ name }) => name),
  select: (dialect, ref) => {
    const rows = coveredTables.map((table) => coverageRows(table, dialect, ref));
    return `SELECT table_name, column_name, all_rows AS ${quoted(dialect, "rows")}, rows_known
FROM (
${rows.join("\nUNION ALL\n")}) AS covered`;
  },
});
