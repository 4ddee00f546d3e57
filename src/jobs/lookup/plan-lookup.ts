import { planLookup as countDue } from "../../load/due/lookup-selection.ts";
import type { PlanContext, Planned } from "../report/job-plan.ts";
import { limitsOf, tightestCap } from "./caps.ts";
import { forecastOf } from "./forecast.ts";
import { lookupSpecOf, plainRequest } from "./lookup-spec.ts";
import type { LookupJobConfig } from "./lookup-type.ts";

/** Predicts what a run of a lookup would send; changes nothing. */
export async function planLookup(context: PlanContext, job: LookupJobConfig): Promise<Planned> {
  const { config, db, planned, shard, used } = context;
  const limits = limitsOf(config, job, null, shard);
  const cap = tightestCap(limits, used);
  const spec = await lookupSpecOf(job, { ...plainRequest, shard, maxRecords: cap?.records ?? null });
  const counts = await countDue(db, spec);
  const isAnsweredFirst = spec.pidFrom !== null && planned.has(spec.pidFrom);
  const waiting = isAnsweredFirst ? counts.waiting : 0;
  const forecast = forecastOf(config, job, counts, { cap, toCome: waiting });
  const isCut = cap !== null && (counts.remaining > 0 || counts.toSend + waiting > cap.records);
  const plan = {
    job: job.name,
    type: job.type,
    records_read: counts.read,
    records_due: counts.due,
    due_reasons: counts.dueReasons,
    records_unchanged: counts.unchanged,
    records_duplicate: counts.duplicate,
    records_waiting: counts.waiting,
    records_suppressed: counts.suppressed,
    records_rejected_before_sending: counts.rejectedBeforeSending,
    records_to_send: counts.toSend,
    records_remaining: counts.remaining,
    limited_by: isCut ? cap.limitedBy : null,
    budget_left: tightestCap({ ...limits, perRun: null, perShard: null }, used)?.records ?? null,
    calls: forecast.calls,
    estimated_billable: forecast.billable,
    estimated_seconds: forecast.seconds,
    waiting_answers: context.waitingAnswers,
    remarks: [],
  };
  return { plan, sending: forecast.records };
}
