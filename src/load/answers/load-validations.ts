import { sql } from "kysely";
import { validateFields } from "../../schemas/validate-emails.ts";
import { quoteIdentifier, tableId } from "../db/names.ts";
import type { LookupContext } from "./load-context.ts";
import {
  type AnswerTable,
  dropStage,
  resolveStaged,
  STAGED,
  stageAnswers,
  writeStates,
} from "./stage-answers.ts";
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
  const staged = await stageAnswers(context, spec, answers, answerTable);
  const list = answerTable.columns.map(quoteIdentifier);
  const set = list.slice(1).map((column) => `${column} = excluded.${column}`);
  const isChanged = sql.raw("t.email_validation_status IS DISTINCT FROM excluded.email_validation_status");
  const written = await context.session.change(sql`
    WITH latest AS (
      INSERT INTO ${tableId(context.names, "email_state")} AS t (email_address, call_number, _synced_at, _run_id)
      SELECT s.email_address, r.call_number, now(), ${context.runId}
      FROM ${STAGED} ORDER BY s.email_address COLLATE "C"
      ON CONFLICT (email_address) DO UPDATE SET call_number = excluded.call_number, _synced_at = excluded._synced_at,
        _run_id = excluded._run_id
        WHERE t.call_number <= excluded.call_number
      RETURNING email_address)
    INSERT INTO ${tableId(context.names, "email_validation")} AS t (${sql.raw(list.join(", "))}, _synced_at, _run_id)
    SELECT ${sql.raw(list.map((column) => `s.${column}`).join(", "))}, now(), ${context.runId}
    FROM pg_temp.stage_answer AS s JOIN latest USING (email_address)
    ON CONFLICT (email_address) DO UPDATE SET ${sql.raw(set.join(", "))},
      previous_status = CASE WHEN ${isChanged} THEN t.email_validation_status ELSE t.previous_status END,
      status_changed_at = CASE WHEN ${isChanged} THEN excluded.request_completed_at ELSE t.status_changed_at END,
      _synced_at = now(), _run_id = ${context.runId}`);
  context.touch("email_validation", written);
  await writeStates(context, spec);
  await resolveStaged(context, spec, staged);
  await dropStage(context);
}
