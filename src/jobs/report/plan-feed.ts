import { readCheckpoints } from "../../load/feeds/feeds.ts";
import type { Config, FeedJobConfig } from "../../config/config.ts";
import { StopJobError } from "../../errors.ts";
import { estimateSeconds } from "../lookup/estimate.ts";
import type { FeedForecast, ForecastContext } from "../feed-type.ts";
import { bindFeed } from "../feed-types.ts";
import type { JobPlan } from "./job-plan.ts";

/** What a run of a feed would do; feeds are free. */
export async function planFeed(
  services: Pick<ForecastContext, "config" | "db" | "clock">,
  job: FeedJobConfig,
  sizesToCome: ReadonlyMap<string, number>,
): Promise<{ readonly plan: JobPlan; readonly sizeToCome: number | null }> {
  const stored = await readCheckpoints(services.db, job.name);
  const checkpoints = new Map(stored.map((checkpoint) => [checkpoint.stream, checkpoint]));
  const forecast = await bindFeed(job)
    .forecast({ ...services, checkpoints, sizesToCome })
    .catch((error: unknown): FeedForecast => {
      if (!(error instanceof StopJobError)) throw error;
      return { calls: 0, toSend: 0, remarks: [`a run would fail: ${error.message}`] };
    });
  return { plan: planOf(services.config, job, forecast), sizeToCome: forecast.push?.sizeToCome ?? null };
}

function planOf({ service }: Config, job: FeedJobConfig, forecast: FeedForecast): JobPlan {
  const { calls, toSend, push, remarks = [] } = forecast;
  const found = push?.found;
  const toAdd = found?.toAdd ?? 0;
  const newcomers = found?.newcomers ?? 0;
  return {
    job: job.name,
    type: job.type,
    records_read: found?.read ?? 0,
    records_due: toAdd,
    due_reasons: {
      ...(newcomers > 0 ? { not_a_member: newcomers } : {}),
      ...(toAdd > newcomers ? { full_sweep: toAdd - newcomers } : {}),
    },
    records_unchanged: found?.unchanged ?? 0,
    records_duplicate: found?.duplicate ?? 0,
    records_suppressed: found?.suppressed ?? 0,
    records_waiting: 0,
    records_rejected_before_sending: found?.missing ?? 0,
    records_to_send: toSend,
    records_to_remove: push?.toRemove ?? 0,
    records_remaining: 0,
    limited_by: null,
    budget_left: null,
    calls,
    estimated_billable: { low: 0, expected: 0, high: 0, basis: "free" },
    // One call after the other.
    estimated_seconds: estimateSeconds(calls, {
      concurrency: 1,
      requestsPerSecond: service.requestsPerSecond,
    }),
    waiting_answers: { calls: 0, bytes: 0 },
    remarks,
  };
}
