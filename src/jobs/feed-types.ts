import type { FeedJobConfig } from "../config/config.ts";
import { StopJobError } from "../errors.ts";
import { deathSignalsJob } from "./death-signals.ts";
import { endpointUsageJob } from "./endpoint-usage.ts";
import { segmentMembersJob } from "./segment-members.ts";
import type { FeedContext, FeedForecast, FeedJobType } from "./feed-type.ts";
import { searchUsageJob } from "./search-usage.ts";

/** A feed's declaration, applied to one job. */
export interface BoundFeed extends Pick<FeedJobType, "endpoints" | "cursorDoc"> {
  readonly forecast: FeedForecast;
  run(context: Omit<FeedContext, "job">): Promise<void>;
}

function bind<J extends FeedJobConfig>(type: FeedJobType<J>, job: J): BoundFeed {
  const { endpoints, cursorDoc } = type;
  return {
    endpoints,
    cursorDoc,
    forecast: type.forecast(job),
    run: (context) => type.run({ ...context, job }),
  };
}

/** Stands for the types that are still to come. */
const notYet: FeedJobType = {
  endpoints: [],
  cursorDoc: "",
  forecast: () => ({ calls: 0, toSend: 0 }),
  run: async ({ job }) => {
    throw new StopJobError("not_available", `${job.name}: ${job.type} is not available in this version.`);
  },
};

/** Every type of feed there is; a new one adds its line. */
export function bindFeed(job: FeedJobConfig): BoundFeed {
  if (job.type === "segment_members") return bind(segmentMembersJob, job);
  if (job.type === "segment_push") return bind(notYet, job);
  if (job.type === "death_signals") return bind(deathSignalsJob, job);
  if (job.type === "search_usage") return bind(searchUsageJob, job);
  return bind(endpointUsageJob, job);
}
