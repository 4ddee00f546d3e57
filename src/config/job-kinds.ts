import type { FeedJobConfig, JobConfig, LookupJobConfig } from "./config.ts";

const lookupTypes: readonly JobConfig["type"][] = ["resolve", "validate_emails", "enrich"];

/** Whether a job asks about the rows of an input. */
export function isLookupJob(job: JobConfig): job is LookupJobConfig {
  return lookupTypes.includes(job.type);
}

/** Whether a job keeps a free feed, or fills a segment. */
export function isFeedJob(job: JobConfig): job is FeedJobConfig {
  return !isLookupJob(job);
}
