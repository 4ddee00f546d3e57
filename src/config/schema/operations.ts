import { z } from "zod";
import { secret } from "./addresses.ts";
import { choice, listOf, ratio, text, wholeNumber } from "./described.ts";
import { settings } from "./settings.ts";
import { duration } from "./values.ts";

const count = () => wholeNumber(0, Number.MAX_SAFE_INTEGER);

/** `privacy`: settings for erased people. */
export const privacy = settings({
  /** Key of the hashes; by default the warehouse generates one. */
  erasure_key: secret().optional(),
  /** Lifetime of tombstones. */
  erasure_notice: duration().prefault("30d"),
});

/** `retention`: how long to keep rows, by table; unlimited by default. */
export const retention = z
  .strictObject({
    match_history: duration("1d").optional(),
    segment_membership_history: duration("1d").optional(),
    reject: duration("1d").optional(),
    sync_run: duration("30d").optional(),
    // Answers waiting to be loaded refer to their call, so a call must be kept longer.
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

/** `alerts`: webhook for runs that end badly. */
export const alerts = settings({
  webhook: secret(),
  on: listOf(choice(["failed", "limited", "interrupted", "locked"]), "a list of statuses", 1).default([
    "failed",
    "limited",
  ]),
  /** `auto`: Slack format for hooks.slack.com, otherwise JSON. */
  format: choice(["auto", "json", "slack"]).default("auto"),
  /** Alert if a job has not succeeded for this long. */
  stale_after: duration().optional(),
  /** Alert if a budget is used to this ratio. */
  budget_ratio: ratio().default(0.9),
});

/** `scheduler`: missed slots and jitter. */
export const scheduler = settings({
  /** Maximum delay after which a missed slot still runs; 0: never. */
  catch_up: duration("0s").prefault("24h"),
  /** Delays each start by up to this long; the delay is fixed per job and slot. */
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

/** `spool`: received answers waiting to be loaded; sending stops when it is full. */
export const spool = settings({ max_megabytes: wholeNumber(1, 1_000_000).default(1024) }).transform(
  ({ maxMegabytes }) => ({ maxBytes: maxMegabytes * 1024 * 1024 }),
);

/** `confirm_above`: a job with more due rows than both limits asks first. */
export const confirmAbove = settings({
  records: count().default(10_000),
  ratio: ratio().default(0.2),
});
