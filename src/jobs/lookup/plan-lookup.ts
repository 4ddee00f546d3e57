import { buildRequest, type LookupItem } from "../../extract/batches.ts";
import { countText } from "../../figures.ts";
import type { LookupCounts } from "../../load/lookups/counts.ts";
import { previewLookup } from "../../load/lookups/selection.ts";
import { lastRuns } from "../../load/runs/status.ts";
import { decideSending } from "../confirm.ts";
import type { PlanContext, Planned, ShownRequest } from "../job-type.ts";
import { limitsOf, lookupSpecOf, tightestCap } from "./lookup-spec.ts";
import { forecastOf } from "./estimate.ts";
import { type LookupJobConfig, lookupOf } from "./lookup-types.ts";
import { certainlyBilled } from "../price.ts";

/** Predicts what a run would send; changes nothing. */
export async function planLookup(context: PlanContext, job: LookupJobConfig): Promise<Planned> {
  const { config, db, earlier, request, used } = context;
  const { shard, resend, show } = request;
  const limits = limitsOf(config, job, request.maxRecords, shard);
  const cap = tightestCap(limits, used);
  const spec = await lookupSpecOf(job, {
    acceptParameters: null,
    shard,
    resend,
    maxRecords: cap?.records ?? null,
  });
  const { counts, records } = await previewLookup(db, spec, show * lookupOf(job).endpoint.maxRecords);
  const answering = spec.pidFrom === null ? undefined : earlier.get(spec.pidFrom);
  // A capped job answers no more than it sends.
  const answered = answering?.records_remaining === 0 ? counts.waiting : (answering?.records_to_send ?? 0);
  const waitingRows = Math.min(counts.waiting, answered);
  const waiting = Math.min(counts.waitingRecords, answered);
  const forecast = forecastOf(config, job, counts, { cap, billed: certainlyBilled(used), toCome: waiting });
  const decision = decideSending(config, {
    counts: { ...counts, due: counts.due + waitingRows, toSend: forecast.records },
    billable: forecast.billable,
    cost: forecast.cost,
    pastRuns: await lastRuns(db, job.name),
    shard,
    resend,
    acceptParameters: null,
  });
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
    reject_reasons: counts.rejectReasons,
    records_to_send: counts.toSend,
    records_expected: forecast.records,
    records_remaining: counts.remaining,
    limited_by: isCut ? cap.limitedBy : null,
    budget_left: tightestCap({ ...limits, perRun: null, perShard: null }, used)?.records ?? null,
    calls: forecast.calls,
    estimated_billable: forecast.billable,
    estimated_seconds: forecast.seconds,
    needs_confirmation: decision.kind === "ask",
    waiting_answers: context.spooled,
    remarks: [
      ...(decision.kind === "ask" ? [`the run asks first, or needs --yes: ${decision.reason}`] : []),
      ...remarksOn(counts, { pidFrom: spec.pidFrom, isAnsweredFirst: answering !== undefined }),
    ],
    ...(show === 0 ? {} : { requests: shownRequests(job, records, show) }),
  };
  return { plan, sending: forecast.records };
}

/**
 * First requests of a lookup if none fails, as shown to the user. A body holds no numbers, so that parsing and printing it changes no byte.
 * @param count maximum number of requests
 */
export function shownRequests(
  job: LookupJobConfig,
  items: readonly LookupItem[],
  count: number,
): readonly ShownRequest[] {
  const { endpoint, requestParameters: parameters } = lookupOf(job);
  const requests: ShownRequest[] = [];
  for (let at = 0; at < items.length && requests.length < count; at += endpoint.maxRecords) {
    const batch = items.slice(at, at + endpoint.maxRecords);
    const { method, path, body } = buildRequest(endpoint, parameters, batch);
    const parsed: object = JSON.parse(body);
    requests.push({ method, path, records: batch.length, body: parsed });
  }
  return requests;
}

/** Remarks on rows that the run can't send as things stand. */
function remarksOn(
  { waiting, parametersChanged }: LookupCounts,
  { pidFrom, isAnsweredFirst }: { readonly pidFrom: string | null; readonly isAnsweredFirst: boolean },
): readonly string[] {
  return [
    ...(waiting > 0 && !isAnsweredFirst
      ? [
          `${countText(waiting, "row")} ${waiting === 1 ? "waits" : "wait"} for ${pidFrom}, which is not part of this plan`,
        ]
      : []),
    ...(parametersChanged > 0
      ? [
          `${countText(parametersChanged, "row")} ${parametersChanged === 1 ? "was" : "were"} processed with another mapping or ` +
            "other parameters: the run sends nothing until you pass --accept-parameters resend or keep",
        ]
      : []),
  ];
}
