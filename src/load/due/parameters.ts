import { sql } from "kysely";
import { type ParametersDecision, refreshPolicy } from "./parameters-decision.ts";
import type { LookupSpec } from "../lookup.ts";
import { type ClassifyContext, classifiedRows } from "./classify.ts";
import { dueAt } from "./due-at.ts";
import { type SchemaNames, tableId } from "../db/names.ts";
import type { Session } from "../db/session.ts";

/** Compares the job's parameters with those that were last accepted. */
export async function readParameters(
  session: Session,
  names: SchemaNames,
  spec: LookupSpec,
): Promise<ParametersDecision> {
  const parameters = tableId(names, "job_parameters");
  const [stored] = await session.rows<{ parameters_hash: string }>(sql`
    SELECT parameters_hash FROM ${parameters} WHERE job = ${spec.job}`);
  if (!stored) return "first";
  if (stored.parameters_hash === spec.parametersHash) return "accepted";
  // Another shard may be accepting them at this moment, for all of them.
  const [now] = await session.rows<{ parameters_hash: string }>(sql`
    SELECT parameters_hash FROM ${parameters} WHERE job = ${spec.job} FOR UPDATE`);
  if (now?.parameters_hash === spec.parametersHash) return "accepted";
  return spec.acceptParameters ?? "undecided";
}

/** Remembers the parameters, so that a run that goes on after a limit or a crash doesn't ask again. */
export async function writeParameters(
  session: Session,
  names: SchemaNames,
  spec: LookupSpec,
  decision: ParametersDecision,
): Promise<void> {
  if (decision === "accepted") return;
  // "undecided" gets here only when no row was bought with other parameters: there is nothing to decide.
  const accepted = decision === "undecided" ? "first" : decision;
  await session.change(sql`
    INSERT INTO ${tableId(names, "job_parameters")} AS p
      (job, parameters_hash, refresh_policy, accepted, accepted_at, _synced_at, _run_id)
    VALUES (${spec.job}, ${spec.parametersHash}, ${refreshPolicy(spec)}, ${accepted}, now(), now(), '')
    ON CONFLICT (job) DO UPDATE SET parameters_hash = excluded.parameters_hash, accepted = excluded.accepted,
      accepted_at = excluded.accepted_at, _synced_at = excluded._synced_at`);
}

/**
 * `--accept-parameters keep`: present content counts as what was bought, so nothing becomes due by the change. Done for all
 * shards, because the user's word holds for all of them.
 */
export async function keepAnswers(
  session: Session,
  names: SchemaNames,
  context: ClassifyContext,
): Promise<void> {
  const spec: LookupSpec = { ...context.spec, shard: null };
  const classify = { ...context, spec };
  const state = tableId(names, "lookup_state");
  if (spec.type !== "validate_emails") {
    await session.change(sql`
      UPDATE ${state} AS t SET input_hash = c.input_hash, _synced_at = now(),
        sent_service_pid = CASE WHEN c.class = 'waiting' THEN t.sent_service_pid ELSE c.pid END
      FROM (${classifiedRows(classify)}) AS c
      WHERE c.class <> 'reject:duplicate_key' AND t.job = ${spec.job} AND t.source = ${spec.input.name} AND t.source_key = c.source_key
        AND t.parameters_hash <> ${spec.parametersHash} AND t.outcome <> 'rejected'`);
  }
  await session.change(sql`
    UPDATE ${state} SET parameters_hash = ${spec.parametersHash}, _synced_at = now()
    WHERE job = ${spec.job} AND source = ${spec.input.name} AND parameters_hash <> ${spec.parametersHash}
      AND outcome <> 'rejected'`);
}

/** When the configured refresh ages changed since `due_at` was computed, computes it again. */
export async function applyRefreshPolicy(
  session: Session,
  names: SchemaNames,
  spec: LookupSpec,
): Promise<void> {
  const parameters = tableId(names, "job_parameters");
  const policy = refreshPolicy(spec);
  const changed = await session.change(sql`
    UPDATE ${parameters} SET refresh_policy = ${policy}, _synced_at = now()
    WHERE job = ${spec.job} AND refresh_policy <> ${policy}`);
  if (changed === 0) return;
  const due = dueAt(spec, {
    answeredAt: "answered_at",
    outcome: "outcome",
    sentHash: "sent_hash",
    isFirst: "attempts = 1 AND sent_hash IS NOT NULL",
  });
  await session.change(sql`
    UPDATE ${tableId(names, "lookup_state")} SET _synced_at = now(), due_at = ${due}
    WHERE job = ${spec.job} AND source = ${spec.input.name} AND outcome <> 'rejected'`);
}
