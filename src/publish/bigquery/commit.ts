import { insertJob, runJob } from "../../bigquery/jobs.ts";
import { quoteIdentifier } from "../../bigquery/names.ts";
import { LABELS, queryOf, resultsOf } from "../../bigquery/session.ts";
import type { Column } from "../../schemas/table.ts";
import type { CommitOutcome, StagedBatch, TableChange } from "../destination.ts";
import { type DatasetNames, positionTable, tableName } from "./ddl.ts";
import { type StagingContext, stagingTable } from "./stage.ts";

/** Last row of the script. */
interface Outcome {
  readonly moved: number;
  readonly id: string | null;
}

/** Applies a staged batch in one transaction, which first moves the position from the predecessor. */
export async function commitBatch(context: StagingContext, batch: StagedBatch): Promise<CommitOutcome> {
  const { client, names, location } = context;
  const query = { useLegacySql: false, ...queryOf(commitScript(names, batch)) };
  const id = `person_etl_commit_${names.data}_${batch.number}_${batch.attempt}`;
  const job = await runJob(client, { id, location }, (reference) =>
    insertJob(client, reference, { labels: LABELS, query }),
  );
  const [outcome] = await resultsOf<Outcome>(client, job.jobReference);
  if (outcome?.moved === 1) return "committed";
  return outcome?.id === batch.id ? "present" : "refused";
}

/** Script of a commit; its last statement returns whether it committed, and the current position. */
export function commitScript(names: DatasetNames, batch: StagedBatch) {
  const changes = batch.changes.flatMap((change) => statementsOf(names, batch, change));
  return {
    text: `DECLARE moved INT64 DEFAULT 0;
BEGIN TRANSACTION;
UPDATE ${positionTable(names)} SET number = @number, id = @id, published_at = CURRENT_TIMESTAMP()
  WHERE id IS NOT DISTINCT FROM @follows;
SET moved = @@row_count;
IF moved = 1 THEN
${changes.map((statement) => `  ${statement};\n`).join("")}  COMMIT TRANSACTION;
ELSE
  ROLLBACK TRANSACTION;
END IF;
SELECT moved, id FROM ${positionTable(names)}`,
    parameters: { number: batch.number, id: batch.id, follows: batch.follows },
  };
}

function statementsOf(names: DatasetNames, batch: StagedBatch, change: TableChange): readonly string[] {
  const { table, replaces, hasRows } = change;
  const target = tableName(names, table.schema, table.name);
  const columns = table.columns.map(({ name }) => quoteIdentifier(name)).join(", ");
  const values = table.columns.map(valueOf).join(", ");
  const insert = `INSERT INTO ${target} (${columns})\n  SELECT ${values} FROM ${stagingTable(names, batch, table, "rows")}`;
  return [
    replaces === "all" ? `TRUNCATE TABLE ${target}` : deleteOf(names, batch, change),
    ...(hasRows ? [insert] : []),
  ];
}

/** Converts a staged value to the column's type; JSON is staged as text. */
function valueOf({ name, type }: Column): string {
  const column = quoteIdentifier(name);
  return type === "json" ? `PARSE_JSON(${column}, wide_number_mode => 'round')` : column;
}

function deleteOf(names: DatasetNames, batch: StagedBatch, { table }: TableChange): string {
  const root = { ...table, name: table.root };
  const keys = stagingTable(names, batch, root, "keys");
  const target = tableName(names, table.schema, table.name);
  const [first, ...others] = table.rootKey;
  if (first !== undefined && others.length === 0) {
    const key = quoteIdentifier(first);
    return `DELETE FROM ${target} WHERE ${key} IN (SELECT ${key} FROM ${keys})`;
  }
  const equal = table.rootKey.map((name) => `k.${quoteIdentifier(name)} = t.${quoteIdentifier(name)}`);
  // A table of one row has no key.
  return equal.length === 0
    ? `DELETE FROM ${target} WHERE TRUE`
    : `DELETE FROM ${target} AS t WHERE EXISTS (SELECT 1 FROM ${keys} AS k WHERE ${equal.join(" AND ")})`;
}
