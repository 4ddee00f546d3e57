import type { FeedJobConfig } from "../config/config.ts";
import { deathSignalsJob } from "./segments/death-signals.ts";
import { endpointUsageJob } from "./usage/endpoint-usage.ts";
import { segmentMembersJob } from "./segments/segment-members.ts";
import type { FeedContext, FeedForecast, FeedJobType, ForecastContext } from "./feed-type.ts";
import type { JobServices } from "./services.ts";
import { segmentPushJob } from "./segments/segment-push.ts";
import { searchUsageJob } from "./usage/search-usage.ts";

/** A feed's declaration, applied to one job. */
export interface BoundFeed extends Pick<FeedJobType, "endpoints" | "cursorDoc" | "cursor" | "exampleCursor"> {
  streams(services: Pick<JobServices, "config" | "db">): Promise<readonly string[]>;
  forecast(context: Omit<ForecastContext, "job">): Promise<FeedForecast>;
  run(context: Omit<FeedContext, "job">): Promise<void>;
}

function bind<J extends FeedJobConfig>(type: FeedJobType<J>, job: J): BoundFeed {
  const { endpoints, cursorDoc, cursor, exampleCursor } = type;
  return {
    endpoints,
    cursorDoc,
    cursor,
    exampleCursor,
    streams: (services) => type.streams(job, services),
    forecast: async (context) => type.forecast({ ...context, job }),
    run: (context) => type.run({ ...context, job }),
  };
}

/** Every type of feed there is; a new one adds its line. */
export function bindFeed(job: FeedJobConfig): BoundFeed {
  if (job.type === "segment_members") return bind(segmentMembersJob, job);
  if (job.type === "segment_push") return bind(segmentPushJob, job);
  if (job.type === "death_signals") return bind(deathSignalsJob, job);
  if (job.type === "search_usage") return bind(searchUsageJob, job);
  return bind(endpointUsageJob, job);
}
