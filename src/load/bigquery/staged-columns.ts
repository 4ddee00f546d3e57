import type { ColumnType } from "../../schemas/field.ts";
import { tableNamed } from "../../schemas/registry.ts";
import type { Column } from "../../schemas/table.ts";
import { enrichFields } from "../../schemas/enrich.ts";
import { resolveFields } from "../../schemas/resolve.ts";
import { validateFields } from "../../schemas/validate-emails.ts";
import { listGroups, scalarNames } from "../person-groups.ts";
import type { LookupType } from "../warehouse.ts";
import { listColumn, stagedColumns, subjectsColumn } from "./staged-person.ts";
import type { StagingColumn } from "./staging.ts";

/** Columns of the answer that each endpoint gives, in declared order. */
export const answerFields: Readonly<Record<LookupType, readonly string[]>> = {
  resolve: Object.keys(resolveFields),
  enrich: Object.keys(enrichFields),
  validate_emails: Object.keys(validateFields),
};

/** The table that keeps the answers of a job type. */
export const answerTables: Readonly<Record<LookupType, string>> = {
  resolve: "resolution",
  enrich: "enrichment",
  validate_emails: "email_validation",
};

/** The declared type of a column. */
export function typeOf(table: string, name: string): ColumnType {
  const column = tableNamed(table).columns.find((c: Column) => c.name === name);
  if (!column) throw new Error(`No column ${name} of ${table} is declared.`);
  return column.type;
}

const text = (name: string): StagingColumn => ({ name, type: "STRING" });
const record = (name: string, fields: readonly string[], mode: "NULLABLE" | "REPEATED"): StagingColumn => ({
  name,
  type: "RECORD",
  mode,
  fields: fields.map(text),
});

/** What stands in every line: whose it is, and the input rows behind it. */
const common: readonly StagingColumn[] = [
  { name: "seq", type: "INTEGER" },
  text("kind"),
  text("call_id"),
  text("record_id"),
  text("sent_hash"),
  text("sent_pid"),
  text("api_request_id"),
  // Key, input hash (hex), prior outcome, due_at.
  record("input_rows", ["k", "h", "p", "d"], "REPEATED"),
];

const reject: readonly StagingColumn[] = ["stage", "code", "message", "details"].map(text);

const person: readonly StagingColumn[] = [
  text("pid"),
  { name: "micros", type: "INTEGER" },
  text("mask"),
  text("hashes"),
  { name: "is_whole", type: "BOOLEAN" },
  record("scalars", [...scalarNames, "_extra"], "NULLABLE"),
  ...listGroups.flatMap((group, i) => [
    record(listColumn(i), stagedColumns(group), "REPEATED"),
    ...(group.subjects ? [record(subjectsColumn(i), group.subjects.columns.slice(1), "REPEATED")] : []),
  ]),
];

/**
 * Columns of the table that one commit is loaded into: a line an answer, with its person's lists inside, or a reject. Values
 * are text, so that a load never fails for one; they get their types in the transaction, where a bad one can be told.
 */
export function stagedColumnsOf(type: LookupType): readonly StagingColumn[] {
  return [
    ...common,
    ...reject,
    ...["outcome", "returned_pid", "answered_at", "extra"].map(text),
    record("cells", answerFields[type], "NULLABLE"),
    ...(type === "enrich" ? person : []),
  ];
}
