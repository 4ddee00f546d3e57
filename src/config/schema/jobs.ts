import { z } from "zod";
import { choice, described, flag, listOf, oneOrMore, ratio, text, wholeNumber } from "./described.ts";
import { cronSchedule, day, duration, nameOf, sqlText, timezone, uuid } from "./values.ts";

/** What `match_condition_fields` may hold (interface 4.7). */
export const matchConditionFields = [
  "linkedin_url",
  "gender",
  "estimated_income_range",
  "estimated_wealth_range",
  "emails",
  "personal_email",
  "professional_email",
  "phone",
  "mobile_phone",
  "home_ownership_status",
] as const;

const common = {
  enabled: flag().default(true),
  after: oneOrMore(nameOf("a job")).optional(),
  schedule: cronSchedule().optional(),
  timezone: timezone().default("UTC"),
};

const lookup = {
  ...common,
  input: nameOf("an input"),
  refresh_after: duration().optional(),
  refresh_unmatched_after: duration().optional(),
  max_records_per_run: wholeNumber(1, Number.MAX_SAFE_INTEGER).optional(),
  max_reject_ratio: ratio().optional(),
};

const resolve = z.strictObject({
  type: z.literal("resolve"),
  ...lookup,
  valid_emails_from: nameOf("a validate_emails job").optional(),
});

const validateEmails = z.strictObject({ type: z.literal("validate_emails"), ...lookup });

const enrich = z.strictObject({
  type: z.literal("enrich"),
  ...lookup,
  pid_from: nameOf("a resolve job").optional(),
  valid_emails_from: nameOf("a validate_emails job").optional(),
  return_fields: listOf(text({ expects: "the name of a field" }), "a list of field names").default([]),
  match_condition_fields: listOf(choice(matchConditionFields), "a list of field names").default([]),
  include_premium_fields: flag().default(false),
});

const segments = listOf(
  z.strictObject({
    id: uuid().optional(),
    job: nameOf("a segment_push job").optional(),
    name: text({ expects: "a name" }).optional(),
  }),
  "a list of segments, each `{ id: … }` or `{ job: … }`",
  1,
);

const segmentMembers = z.strictObject({
  type: z.literal("segment_members"),
  ...common,
  segments,
  full_sweep_every: duration().default("7d"),
});

const segmentPush = z.strictObject({
  type: z.literal("segment_push"),
  ...common,
  name: text({ expects: "the name of the segment" }).optional(),
  segment_id: uuid().optional(),
  description: text({ expects: "a description" }).optional(),
  sql: sqlText("a SELECT statement that gives service_pid"),
  connection: nameOf("a connection").optional(),
  mode: choice(["append", "mirror"]).default("append"),
  max_remove_ratio: ratio().default(0.1),
  max_reject_ratio: ratio().optional(),
  full_sweep_every: duration().default("7d"),
});

const deathSignals = z.strictObject({ type: z.literal("death_signals"), ...common, segments });

const searchUsage = z.strictObject({ type: z.literal("search_usage"), ...common });

const endpointUsage = z.strictObject({
  type: z.literal("endpoint_usage"),
  ...common,
  bucketing_size: choice(["hour", "day", "week", "month", "quarter", "year"]).default("day"),
  start_date: day(),
});

const query = text(
  { expects: "a description of the people, of 1 to 500 characters" },
  (value) => Array.from(value).length > 500,
);

/** `never`, or a ceiling on what is paid. */
const unlock = described(
  z.union([choice(["never"]), z.strictObject({ max_billable: wholeNumber(1, Number.MAX_SAFE_INTEGER) })]),
  { expects: "`never`, or a ceiling such as { max_billable: 5000 }" },
).default("never");

const personSearch = z.strictObject({
  type: z.literal("person_search"),
  ...common,
  searches: z.record(
    z.string(),
    z.strictObject({ query, size: wholeNumber(1, 100).default(100), refresh_after: duration().optional() }),
  ),
});

const audienceSearch = z.strictObject({
  type: z.literal("audience_search"),
  ...common,
  searches: z.record(z.string(), z.strictObject({ query, unlock, refresh_after: duration().optional() })),
});

const contactJobs = z.strictObject({
  type: z.literal("contact_jobs"),
  ...common,
  job_ids: described(
    z.union([
      listOf(uuid(), "a list of job ids", 1),
      z.strictObject({
        sql: sqlText("a SELECT statement that gives job ids"),
        connection: nameOf("a connection").optional(),
      }),
    ]),
    { expects: "a list of job ids, or { sql: SELECT … }" },
  ),
  unlock,
});

/** One of `jobs`, told apart by `type`. */
export const job = z.discriminatedUnion("type", [
  resolve,
  validateEmails,
  enrich,
  segmentMembers,
  segmentPush,
  deathSignals,
  searchUsage,
  endpointUsage,
  personSearch,
  audienceSearch,
  contactJobs,
]);

/** Every job type that the schema knows. */
export const jobTypes: readonly string[] = job.options.map((option) => option.shape.type.value);

/** One of `jobs` once the schema has passed it. */
export type JobDocument = z.output<typeof job>;
