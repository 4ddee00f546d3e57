import { z } from "zod";
import { secret } from "./addresses.ts";
import { choice, listOf, ratio, text, wholeNumber } from "./described.ts";
import { duration } from "./values.ts";

const count = () => wholeNumber(0, Number.MAX_SAFE_INTEGER);
const budget = z.strictObject({ per_day: count().optional(), per_month: count().optional() }).optional();

/** `budgets`: ceilings over days and months, across jobs, shards and crashes. */
export const budgets = z.strictObject({
  resolve: budget,
  validate_emails: budget,
  enrich: budget,
  unlock: budget,
});

/** `privacy`: how erased people are kept out. */
export const privacy = z.strictObject({
  erasure_key: secret().optional(),
  erasure_notice: duration().default("30d"),
});

/** `retention`: how long rows of a table are kept; by table. */
export const retention = z.strictObject({
  match_history: duration("1d").optional(),
  segment_membership_history: duration("1d").optional(),
  reject: duration("1d").optional(),
  sync_run: duration("30d").optional(),
  // Answers that wait to be loaded are known by their call: they must not outlive it. What is left tells of whole days only:
  // see `noteIn` of its rule.
  api_call: duration("30d").optional(),
  input_coverage: duration("1d").optional(),
  segment_sync: duration("1d").optional(),
  person_search_quota: duration("1d").optional(),
  call_in_doubt: duration("7d").default("90d"),
  schedule_slot: duration("7d").default("90d"),
  budget_use: duration("62d").default("400d"),
});

/** `alerts`: who is told when a run ends badly. */
export const alerts = z.strictObject({
  webhook: secret(),
  on: listOf(choice(["failed", "limited", "interrupted", "locked"]), "a list of statuses", 1).default([
    "failed",
    "limited",
  ]),
  format: choice(["auto", "json", "slack"]).default("auto"),
  stale_after: duration().optional(),
  budget_ratio: ratio().default(0.9),
});

/** `scheduler`: what `schedule` does about runs that were missed, and about many jobs at one time. */
export const scheduler = z.strictObject({
  catch_up: duration("0s").default("24h"),
  jitter: duration("0s").default("0s"),
});

/** `http`: the pages of `schedule`. */
export const http = z.strictObject({
  bind: text(
    { expects: "an IP address or host name to listen on" },
    (value) => !/^[A-Za-z0-9.:-]+$/.test(value),
  ).default("127.0.0.1"),
  port: wholeNumber(0, 65_535).default(8080),
  token: secret().optional(),
});

/** `spool`: received answers that wait to be loaded. */
export const spool = z.strictObject({ max_megabytes: wholeNumber(1, 1_000_000).default(1024) });

/** `confirm_above`: a job that is due for more than both asks first. */
export const confirmAbove = z.strictObject({
  records: count().default(10_000),
  ratio: ratio().default(0.2),
});
