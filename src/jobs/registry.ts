import type { JobConfig } from "../config/config.ts";
import { feedJob } from "./feed.ts";
import type { JobType } from "./job-type.ts";
import { lookupJob } from "./lookup/lookup-job.ts";
import { lookupTypes } from "./lookup/lookup-types.ts";
import { audienceSearchJob } from "./search/audience-search.ts";
import { contactJobsJob } from "./search/contact-jobs.ts";
import { personSearchJob } from "./search/person-search.ts";
import { deathSignalsJob } from "./segments/death-signals.ts";
import { segmentMembersJob } from "./segments/segment-members.ts";
import { segmentPushJob } from "./segments/segment-push.ts";
import { endpointUsageJob } from "./usage/endpoint-usage.ts";
import { searchUsageJob } from "./usage/search-usage.ts";

export const jobTypes: readonly JobType[] = [
  ...lookupTypes.map(lookupJob),
  feedJob(segmentMembersJob),
  feedJob(segmentPushJob),
  feedJob(deathSignalsJob),
  feedJob(searchUsageJob),
  feedJob(endpointUsageJob),
  feedJob(personSearchJob),
  feedJob(audienceSearchJob),
  feedJob(contactJobsJob),
];

export function jobTypeOf(job: JobConfig): JobType {
  const found = jobTypes.find(({ type }) => type === job.type);
  if (!found) throw new Error(`Job ${job.name} has the unknown type ${job.type}.`);
  return found;
}
