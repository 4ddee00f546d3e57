import { z } from "zod";
import { secret } from "./addresses.ts";
import { choice, listOf, ratio, text, wholeNumber } from "./described.ts";
import { settings } from "./settings.ts";
import { duration } from "./values.ts";

const count = () => wholeNumber(0, Number.MAX_SAFE_INTEGER);

/** One of `budgets`: records that all jobs of a type together may send; UTC days and months. */
export const budget = settings({ per_day: count().optional(), per_month: count().optional() });

/** `privacy`: how erased people are kept out. */
export const privacy = settings({
  /** Key of the hashes; without one the warehouse keeps its own. */
  erasure_key: secret().optional(),
  /** Lifetime of tombstones. */
  erasure_notice: duration().prefault("30d"),
});

/** `retention`: how long rows are kept, by table; a table without a setting keeps its rows. */
export const retention = z
  .strictObject({
    match_history: duration("1d").optional(),
    segment_membership_history: duration("1d").optional(),
    reject: duration("1d").optional(),
    sync_run: duration("30d").optional(),
    // Answers waiting to be loaded are known by their call, so a call must outlive them.
    api_call: duration("30d").optional(),
    input_coverage: duration("1d").optional(),
    segment_sync: duration("1d").optional(),
    person_search_quota: duration("1d").optional(),
    schedule_slot: duration("7d").prefault("90d"),
    budget_use: duration("62d").prefault("400d"),
  })
  .transform((byTable) =>
    Object.fromEntries(
      Object.entries(byTable).flatMap(([table, keepMs]) =>
        keepMs === undefined ? [] : [[table, Number(keepMs)] as const],
      ),
    ),
  );

/** `alerts`: the webhook that reports runs that end badly. */
export const alerts = settings({
  webhook: secret(),
  on: listOf(choice(["failed", "limited", "interrupted", "locked"]), "a list of statuses", 1).default([
    "failed",
    "limited",
  ]),
  /** `auto`: Slack's form for hooks.slack.com. */
  format: choice(["auto", "json", "slack"]).default("auto"),
  /** Alert about a job that hasn't succeeded for longer. */
  stale_after: duration().optional(),
  /** Alert about a budget used up to this part. */
  budget_ratio: ratio().default(0.9),
});

/** `scheduler`: missed runs, and many jobs at one time. */
export const scheduler = settings({
  /** A missed slot is caught up within this time; 0: never. */
  catch_up: duration("0s").prefault("24h"),
  /** Each slot starts up to this much later, by a share of its own. */
  jitter: duration("0s").prefault("0s"),
});

/** `http`: the pages of `schedule`. */
export const http = settings({
  bind: text(
    { expects: "an IP address or host name to listen on" },
    (value) => !/^[A-Za-z0-9.:-]+$/.test(value),
  ).default("127.0.0.1"),
  port: wholeNumber(0, 65_535).default(8080),
  token: secret().optional(),
});

/** `spool`: received answers that wait to be loaded; a full spool stops sending. */
export const spool = settings({ max_megabytes: wholeNumber(1, 1_000_000).default(1024) }).transform(
  ({ maxMegabytes }) => ({ maxBytes: maxMegabytes * 1024 * 1024 }),
);

/** `confirm_above`: a job due for more than both asks first. */
export const confirmAbove = settings({
  records: count().default(10_000),
  ratio: ratio().default(0.2),
});
