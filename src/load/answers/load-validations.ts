import { sql } from "kysely";
import type { LookupAnswer, LoadSpec } from "../lookup.ts";
import { validateFields } from "../../schemas/validate-emails.ts";
import {
  insertStates,
  mergeStates,
  resolveRejects,
  stageRows,
  stageStates,
  stateCells,
} from "./load-answers.ts";
import type { LoadPlace } from "./load-place.ts";
import { quoteIdentifier, tableId } from "../db/names.ts";

const columns = [
  "email_address",
  ...Object.keys(validateFields),
  "api_request_id",
  "request_completed_at",
  "_extra",
];

/** Loads the answers of a validate_emails job; an older answer changes nothing, a changed status keeps the one before. */
export async function loadValidations(
  place: LoadPlace,
  spec: LoadSpec,
  answers: readonly LookupAnswer[],
  mode: "insert" | "merge",
): Promise<void> {
  const sorted = answers.toSorted((a, b) => ((a.record.address ?? "") < (b.record.address ?? "") ? -1 : 1));
  const rows = sorted.map((answer) => [
    answer.record.address ?? "",
    ...answer.cells,
    answer.apiRequestId,
    answer.answeredAt,
    answer.extra,
  ]);
  await stageRows(place, "stage_validation", "email_validation", columns, rows);
  const list = columns.map(quoteIdentifier).join(", ");
  const set = columns
    .slice(1)
    .map((c) => `${quoteIdentifier(c)} = excluded.${quoteIdentifier(c)}`)
    .join(", ");
  const isChanged = sql.raw("t.email_validation_status IS DISTINCT FROM excluded.email_validation_status");
  const written = await place.session.change(sql`
    INSERT INTO ${tableId(place.names, "email_validation")} AS t (${sql.raw(list)}, _synced_at, _run_id)
    SELECT ${sql.raw(list)}, now(), ${place.runId} FROM pg_temp.stage_validation ORDER BY email_address COLLATE "C"
    ON CONFLICT (email_address) DO UPDATE SET ${sql.raw(set)},
      previous_status = CASE WHEN ${isChanged} THEN t.email_validation_status ELSE t.previous_status END,
      status_changed_at = CASE WHEN ${isChanged} THEN excluded.request_completed_at ELSE t.status_changed_at END,
      _synced_at = now(), _run_id = ${place.runId}
    WHERE t.request_completed_at IS NULL OR t.request_completed_at <= excluded.request_completed_at`);
  await place.session.client.query("DROP TABLE pg_temp.stage_validation");
  place.touch("email_validation", written);
  const states = sorted.flatMap((answer) =>
    answer.record.rows.map((row) => ({
      isNew: row.priorOutcome === null && mode === "insert",
      cells: stateCells(spec, answer, row, [spec.job, spec.input.name, row.sourceKey]),
    })),
  );
  await insertStates(
    place,
    states.filter((s) => s.isNew).map((s) => s.cells),
  );
  const known = states.filter((s) => !s.isNew).map((s) => s.cells);
  if (known.length > 0) {
    await stageStates(place, known);
    await mergeStates(place);
  }
  const rejectedBefore = sorted.flatMap((answer) =>
    answer.record.rows.filter((row) => row.priorOutcome === "rejected").map((row) => row.sourceKey),
  );
  await resolveRejects(place, spec, rejectedBefore);
}
