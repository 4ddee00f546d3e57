import { expect, it } from "vitest";
import { fine, fineBut, load } from "./support.ts";

const KEY = "    key: id\n";

it("keys that have no effect any more are accepted, with one warning for all of them", async () => {
  const text = fineBut(KEY, `${KEY}    cursor: updated_at\n    cursor_overlap: 0s\n`).replace(
    "jobs:",
    "  others: { table: t, key: id, cursor: [a, $X], fields: { emails: email } }\njobs:",
  );
  const { warnings, inputs } = await load(text);
  expect(warnings).toEqual([
    {
      path: "inputs.customers.cursor",
      line: 10,
      message:
        "no longer has an effect: every run compares a fingerprint of each row, so no cursor is needed",
      hint: "remove it and inputs.customers.cursor_overlap, inputs.others.cursor",
    },
  ]);
  expect(inputs["customers"]).toEqual((await load(fine)).inputs["customers"]);
});

it("each reason has one warning that says what happens instead", async () => {
  const text = fine.replace(
    "jobs:",
    `spool: { max_megabytes: 10 }
scheduler: { catch_up: 1h, jitter: 5m }
alerts: { webhook: "\${HOOK}", budget_ratio: 0.5 }
jobs:
  push: { type: segment_push, name: VIP, sql: select 1, full_sweep_every: 1d, max_reject_ratio: 0.1 }
  emails: { type: validate_emails, input: customers, refresh_after: 30d, refresh_unmatched_after: 1d }`,
  );
  const { warnings, jobs } = await load(text, { env: { HOOK: "https://hooks.example.com/1" } });
  expect(
    warnings.map(({ path, message }) => `${path} ${message.replace("no longer has an effect: ", "")}`),
  ).toEqual([
    "spool a job stops sending while 1 GB of received responses waits to be loaded",
    "scheduler a missed run is started once, within 24 hours; start times are no longer spread",
    "alerts.budget_ratio an alert is sent when 90% of a budget is used",
    "jobs.push.full_sweep_every a segment is read completely at least every 7 days",
    "jobs.push.max_reject_ratio `max_reject_ratio` is set once, at the top level, for all jobs",
    "jobs.emails.refresh_unmatched_after `refresh_after` applies to every validated address",
  ]);
  expect(jobs.find(({ name }) => name === "emails")).toMatchObject({
    refreshAfterMs: 2_592_000_000,
    refreshUnmatchedAfterMs: 2_592_000_000,
  });
});

it("the same words elsewhere are still mistakes", async () => {
  await expect(load(`${fine}cursor: updated_at\n`)).rejects.toMatchObject({
    problems: [{ path: "cursor", message: expect.stringContaining("is not a setting") }],
  });
});
