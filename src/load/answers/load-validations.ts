import { sql } from "kysely";
import { validateFields } from "../../schemas/validate-emails.ts";
import { quoteIdentifier, tableId } from "../db/names.ts";
import type { LookupContext } from "./load-context.ts";
import { type AnswerTable, claimRows, resolveAnswered, rowsOfAnswers } from "./answered-rows.ts";
import type { LookupAnswer } from "./answer.ts";
import type { LoadSpec } from "../due/lookup-spec.ts";

const answerTable: AnswerTable = {
  table: "email_validation",
  columns: [
    "email_address",
    ...Object.keys(validateFields),
    "api_request_id",
    "request_completed_at",
    "_extra",
  ],
  cellsOf: ({ record, cells, apiRequestId, answeredAt, extra }) => [
    record.address ?? "",
    ...cells,
    apiRequestId,
    answeredAt,
    extra,
  ],
};

/**
 * Loads the answers of a validate_emails job; stores the previous status on a change. Of all jobs' answers for an
 * address, that of the latest call stays.
 */
export async function loadValidations(
  context: LookupContext,
  spec: LoadSpec,
  answers: readonly LookupAnswer[],
): Promise<void> {
  const rows = rowsOfAnswers(context, spec, answers, answerTable);
  const list = answerTable.columns.map(quoteIdentifier);
  const set = list.slice(1).map((column) => `${column} = excluded.${column}`);
  const isChanged = sql.raw("t.email_validation_status IS DISTINCT FROM excluded.email_validation_status");
  const [written] = await context.session.rows<{ rejected: number; rows: number }>(sql`
    WITH ${claimRows(context, spec, rows)},
    latest AS (
      INSERT INTO ${tableId(context.names, "email_state")} AS t (email_address, call_number, _synced_at, _run_id)
      SELECT s.email_address, s.call_number, now(), ${context.runId}
      FROM claimed JOIN staged AS s USING (source_key) ORDER BY s.email_address COLLATE "C"
      ON CONFLICT (email_address) DO UPDATE SET call_number = excluded.call_number, _synced_at = excluded._synced_at,
        _run_id = excluded._run_id
        WHERE t.call_number <= excluded.call_number
      RETURNING email_address),
    written AS (
      INSERT INTO ${tableId(context.names, "email_validation")} AS t (${sql.raw(list.join(", "))}, _synced_at, _run_id)
      SELECT ${sql.raw(list.map((column) => `s.${column}`).join(", "))}, now(), ${context.runId}
      FROM staged AS s JOIN latest USING (email_address)
      ON CONFLICT (email_address) DO UPDATE SET ${sql.raw(set.join(", "))},
        previous_status = CASE WHEN ${isChanged} THEN t.email_validation_status ELSE t.previous_status END,
        status_changed_at = CASE WHEN ${isChanged} THEN excluded.request_completed_at ELSE t.status_changed_at END,
        _synced_at = now(), _run_id = ${context.runId}
      RETURNING email_address)
    SELECT (SELECT count(*) FROM staged WHERE prior = 'rejected') AS rejected, (SELECT count(*) FROM written) AS rows`);
  context.touch("email_validation", written?.rows ?? 0);
  if (written && written.rejected > 0) await resolveAnswered(context, spec, rows);
}
