import { stampText } from "../population/calendar.ts";
import { contactJobEndpoints } from "../../../../src/schemas/contact-jobs.ts";
import { notFound, type Outcome, plainBody, textsOf } from "../http/answer.ts";
import { type Route, route } from "../http/route.ts";
import { fieldsOf } from "../population/person-fields.ts";
import type { World } from "../world.ts";
import { type Page, resultRoutes } from "./result-routes.ts";
import { type ContactJob, type ContactRow, moveOn, ownOf } from "./searches.ts";

const stamp = (timeMs: number): string => stampText(timeMs, 0, "+00:00");

/** Fields in a jacket (the interface leaves them open). */
const JACKET = [
  "full_name",
  "first_name",
  "last_name",
  "linkedin_url",
  "age",
  "gender",
  "service_spouse_pid",
  "personal_emails",
  "phones",
];

const statusRoute = route({
  ...contactJobEndpoints.status,
  answer({ searches, clock }, call) {
    const job = ownOf(searches.contactJobs, call);
    if (!job) return notFound("job");
    const state = moveOn(job, clock.nowMs());
    const { states, outcome } = job.plan;
    const isFinished = state === null;
    const isCompleted = isFinished && outcome === "completed";
    const failure = isFinished && !isCompleted ? outcome : null;
    const hasStarted = states[0] !== "queued" || job.passed > 0;
    return plainBody({
      job_id: job.jobId,
      job_type: job.jobType,
      status: state ?? (isCompleted ? "completed" : "failed"),
      created_at: stamp(job.createdMs),
      result_count: isCompleted ? job.rows.length : null,
      total_matched: isCompleted ? job.totalMatched : null,
      results_unlocked: job.unlockedMs !== null,
      error_code: failure,
      message: failure && "The job failed.",
      started_at: hasStarted ? stamp(job.createdMs) : null,
      completed_at: isFinished ? stamp(job.updatedMs) : null,
      updated_at: stamp(job.updatedMs),
    });
  },
});

function resultOf({ people }: World, { day, jobType }: ContactJob, { index, matchedTitle }: ContactRow) {
  const current = people.careers.currentJob(index, day);
  const company = current?.company;
  const matched = company?.members;
  return {
    service_pid: people.pidOf(index, day),
    matched_job_title: matchedTitle,
    current_job_title: current?.work_title,
    ...(jobType === "contact_prospect"
      ? { matched_naics_code: matched?.work_company_naics_code ?? null }
      : {
          matched_company: matched && {
            name: matched.work_company_name,
            domain: company.domain,
            linkedin_url: matched.work_company_linkedin_url ?? undefined,
          },
        }),
    jacket: fieldsOf({ people, index, day }, JACKET),
  };
}

/** Serves a page, and charges for what the job's formulation of section 8 says. */
function answerPage(world: World, job: ContactJob, { limit, offset }: Page): Outcome {
  const rows = job.rows.slice(offset, offset + limit);
  const nowMs = world.clock.nowMs();
  const unlockCharges = job.unlockedMs === null ? job.rows : [];
  const toCharge = (job.billing === "page" ? rows : unlockCharges).map(({ index }) => index);
  const charged = world.searches.deliveries.charge(job.organization, nowMs, toCharge);
  if (typeof charged !== "number") return charged;
  job.billable = (job.billable ?? 0) + charged;
  job.unlockedMs ??= nowMs;
  const unlockedAt = stamp(job.unlockedMs);
  return {
    kind: "results",
    results: textsOf(rows.map((row) => resultOf(world, job, row))),
    billed: charged,
    body: (results) => ({
      job_id: job.jobId,
      job_type: job.jobType,
      results,
      total: job.rows.length,
      returned: rows.length,
      limit,
      offset,
      billable_count: job.billing === "page" ? charged : job.billable,
      unlocked_at: unlockedAt,
    }),
  };
}

export const contactJobRoutes: readonly Route[] = [
  statusRoute,
  ...resultRoutes(contactJobEndpoints, {
    thing: "job",
    jobsOf: ({ searches }) => searches.contactJobs,
    answerPage,
  }),
];
