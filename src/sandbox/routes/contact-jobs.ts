import { contactJobEndpoints } from "../../schemas/contact-jobs.ts";
import { type Outcome, type Refusal, refuse } from "../http/outcome.ts";
import { listOf, writeResults } from "../http/result-list.ts";
import { chooseFields } from "../population/person-fields.ts";
import { hasEnded, moveOn } from "../search/progress.ts";
import { type ContactJob, type ContactRow, ownOf } from "../search/searches.ts";
import type { World } from "../world.ts";
import { stampText } from "../world-clock.ts";
import { checkId, checkPage, pageOf } from "./result-pages.ts";
import type { Route, RouteCall } from "./route.ts";

const noSuchJob = (): Refusal => refuse(404, "not_found", "There is no such job.");
const stamp = (timeMs: number): string => stampText(timeMs, 0, "offset");

/** Fields in a jacket (the interface leaves them open). */
const jacket = chooseFields([
  "full_name",
  "first_name",
  "last_name",
  "linkedin_url",
  "age",
  "gender",
  "service_spouse_pid",
  "personal_emails",
  "phones",
]);

/** `GET /person-search/v0/contact-jobs/{job_id}`. */
const statusRoute: Route = {
  ...contactJobEndpoints.status,
  check: (call) => checkId("job_id", call),
  answer(world, { organization, id }) {
    const job = ownOf(world.searches.contactJobs, organization, id);
    if (!job) return noSuchJob();
    const state = moveOn(job, job.course, world.clock.nowMs());
    const isFinished = state === null;
    const isCompleted = isFinished && job.failure === null;
    const hasStarted = job.course.states[0] !== "queued" || job.passed > 0;
    const body = {
      job_id: job.jobId,
      job_type: job.jobType,
      status: state ?? (isCompleted ? "completed" : "failed"),
      created_at: stamp(job.createdMs),
      result_count: isCompleted ? job.rows.length : null,
      total_matched: isCompleted ? job.totalMatched : null,
      results_unlocked: job.unlockedMs !== null,
      error_code: isFinished ? job.failure : null,
      message: isFinished && job.failure !== null ? "The job failed." : null,
      started_at: hasStarted ? stamp(job.createdMs) : null,
      completed_at: isFinished ? stamp(job.updatedMs) : null,
      updated_at: stamp(job.updatedMs),
    };
    const results = writeResults(0).finish();
    return { kind: "results", results, wrap: () => [JSON.stringify(body), ""] };
  },
};

/** JSON text of a result. */
function resultText({ people }: World, { day, jobType }: ContactJob, { index, matchedTitle }: ContactRow) {
  const current = people.careers.currentJob(index, day);
  const company = current?.company;
  const isAppend = jobType === "contact_append";
  const head = JSON.stringify({
    service_pid: people.pidOf(index, day),
    matched_job_title: matchedTitle,
    current_job_title: current?.title,
    ...(isAppend && company
      ? {
          matched_company: {
            name: company.name,
            domain: company.domain,
            linkedin_url: company.linkedinUrl ?? undefined,
          },
        }
      : {}),
    ...(isAppend ? {} : { matched_naics_code: company?.naics ?? null }),
  });
  return `${head.slice(0, -1)},"jacket":{${jacket.text(people, index, day).slice(1)}}}`;
}

/** A page; `charged` is what it, or the unlock, was charged. */
function pageOfRows(
  world: World,
  job: ContactJob,
  rows: readonly ContactRow[],
  call: RouteCall,
  charged: number,
): Outcome {
  const { limit, offset } = pageOf(call);
  const rest = JSON.stringify({
    total: job.rows.length,
    returned: rows.length,
    limit,
    offset,
    billable_count: job.billing === "page" ? charged : job.billable,
    unlocked_at: stamp(job.unlockedMs ?? world.clock.nowMs()),
  });
  return {
    kind: "results",
    results: listOf(rows.map((row) => resultText(world, job, row))),
    billed: charged,
    wrap: () => [`{"job_id":"${job.jobId}","job_type":"${job.jobType}","results":[`, `],${rest.slice(1)}`],
  };
}

/** Serves a page, and charges for what the job's formulation of section 8 says. */
function answerPage(world: World, job: ContactJob, call: RouteCall): Outcome {
  const { limit, offset } = pageOf(call);
  const rows = job.rows.slice(offset, offset + limit);
  const nowMs = world.clock.nowMs();
  const isFirst = job.unlockedMs === null;
  const toCharge = job.billing === "page" ? rows : isFirst ? job.rows : [];
  const charged = world.searches.deliveries.charge(
    job.organization,
    nowMs,
    toCharge.map(({ index }) => index),
  );
  if (typeof charged !== "number") return charged;
  job.billable = (job.billable ?? 0) + charged;
  job.unlockedMs ??= nowMs;
  return pageOfRows(world, job, rows, call, charged);
}

/** `POST …/results`: unlocks, and returns a page. */
const unlockRoute: Route = {
  ...contactJobEndpoints.unlock,
  hasNoBody: true,
  check: (call) => checkPage("job_id", call),
  answer(world, call) {
    const job = ownOf(world.searches.contactJobs, call.organization, call.id);
    if (!job) return noSuchJob();
    if (!hasEnded(job, job.course, world.clock.nowMs()) || job.failure !== null) {
      return refuse(409, null, "The job is not completed.");
    }
    return answerPage(world, job, call);
  },
};

/** `GET …/results`. */
const resultsRoute: Route = {
  ...contactJobEndpoints.results,
  check: (call) => checkPage("job_id", call),
  answer(world, call) {
    const job = ownOf(world.searches.contactJobs, call.organization, call.id);
    if (!job) return noSuchJob();
    if (job.unlockedMs === null) return refuse(409, null, "The results are not unlocked.");
    return answerPage(world, job, call);
  },
};

/** Every path of contact jobs. */
export const contactJobRoutes: readonly Route[] = [statusRoute, unlockRoute, resultsRoute];
