import type { LookupSpec } from "./lookup-spec.ts";
import { sql } from "kysely";
import { type ClassifyContext, classifiedRows } from "./classify.ts";
import { createFromInput } from "../inputs/create-from-input.ts";
import { dueAt } from "./due-at.ts";
import { type SchemaNames, tableId, nextCallNumber } from "../db/names.ts";
import type { Session } from "../db/session.ts";

/** Decision about changed mapping or parameters of a job. */
export type ParametersDecision =
  | "accepted" // unchanged, or accepted earlier
  | "first" // nothing was bought yet
  | "undecided" // changed, and not confirmed by the user
  | "resend"
  | "keep";

/** Refresh ages of a job as text, to detect a change. */
export function refreshPolicy(spec: LookupSpec): string {
  return `${spec.refreshAfterMs ?? "never"}/${spec.refreshUnmatchedAfterMs ?? "never"}`;
}

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
  // Another shard may be accepting them concurrently, for all shards.
  const [now] = await session.rows<{ parameters_hash: string }>(sql`
    SELECT parameters_hash FROM ${parameters} WHERE job = ${spec.job} FOR UPDATE`);
  if (now?.parameters_hash === spec.parametersHash) return "accepted";
  return spec.acceptParameters ?? "undecided";
}

/** Stores the accepted parameters, so that a resumed run doesn't ask again. */
export async function writeParameters(
  session: Session,
  names: SchemaNames,
  spec: LookupSpec,
  decision: ParametersDecision,
): Promise<void> {
  if (decision === "accepted") return;
  // "undecided" arrives here only if no row was bought with other parameters.
  const accepted = decision === "undecided" ? "first" : decision;
  await session.change(sql`
    INSERT INTO ${tableId(names, "job_parameters")} AS p
      (job, parameters_hash, refresh_policy, accepted, accepted_at, _synced_at, _run_id)
    VALUES (${spec.job}, ${spec.parametersHash}, ${refreshPolicy(spec)}, ${accepted}, now(), now(), '')
    ON CONFLICT (job) DO UPDATE SET parameters_hash = excluded.parameters_hash, accepted = excluded.accepted,
      accepted_at = excluded.accepted_at, _synced_at = excluded._synced_at`);
}

/**
 * `--accept-parameters keep`: treats the present content as what was bought, so that the change makes nothing due.
 * Applies to all shards.
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
    await createFromInput(
      session,
      "kept_row",
      sql`SELECT source_key, class, input_hash, pid FROM (${classifiedRows(classify)}) AS c`,
    );
    await session.change(sql`
      UPDATE ${state} AS t SET input_hash = c.input_hash, fingerprint = NULL, _synced_at = now(),
        sent_service_pid = CASE WHEN c.class = 'waiting' THEN t.sent_service_pid ELSE c.pid END
      FROM pg_temp.kept_row AS c
      WHERE c.class <> 'reject:duplicate_key' AND t.job = ${spec.job} AND t.source = ${spec.input.name} AND t.source_key = c.source_key
        AND t.parameters_hash <> ${spec.parametersHash} AND t.outcome <> 'rejected'`);
  }
  await session.change(sql`
    UPDATE ${state} SET parameters_hash = ${spec.parametersHash}, _synced_at = now()
    WHERE job = ${spec.job} AND source = ${spec.input.name} AND parameters_hash <> ${spec.parametersHash}
      AND outcome <> 'rejected'`);
}

/** Recomputes `due_at` if the configured refresh ages changed. */
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

/**
 * Returns the call number below which `--resend` repeats answers; null if nothing was ever answered. A resend that is
 * under way continues until every row is answered; only then does another one begin, and never under the id of a run
 * that took part in the last one: an orchestrator retries its task under the same id.
 * @param runId id of the run; null for a plan.
 * @param isUnderWay returns true while rows of the whole input are still pending from an earlier resend.
 */
export async function resendBefore(
  session: Session,
  names: SchemaNames,
  spec: LookupSpec,
  runId: string | null,
  isUnderWay: (before: number) => Promise<boolean>,
): Promise<number | null> {
  const parameters = tableId(names, "job_parameters");
  // Another shard may start the same resend concurrently.
  const [stored] = await session.rows<{ resend_before: number | null }>(sql`
    SELECT resend_before FROM ${parameters} WHERE job = ${spec.job} FOR UPDATE`);
  if (!stored) return null;
  const { resend_before: before } = stored;
  if (before !== null) {
    const [ours] = await session.rows(sql`
      SELECT FROM ${tableId(names, "api_call")}
      WHERE run_id = ${runId} AND job = ${spec.job} AND call_number > ${before} LIMIT 1`);
    // Reads the whole input, so it comes last.
    if (ours || (await isUnderWay(before))) return before;
  }
  const [begun] = await session.rows<{ resend_before: number }>(sql`
    UPDATE ${parameters} SET resend_before = ${nextCallNumber(names)}, _synced_at = now() WHERE job = ${spec.job}
    RETURNING resend_before`);
  return begun?.resend_before ?? null;
}
