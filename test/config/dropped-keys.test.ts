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

const retained = (keys: string) => load(`${fine}retention: { ${keys} }\n`);

it("limits by table become the limit of their group: the longest of them", async () => {
  const { retention, warnings } = await retained("person_history: 90d, match_history: 2160h, reject: 2w");
  expect(retention).toMatchObject({
    historyMs: 90 * 86_400_000,
    operationsMs: null,
    rejectsMs: 14 * 86_400_000,
  });
  expect(warnings).toEqual([
    {
      path: "retention.match_history",
      line: 15,
      message: "was replaced by retention.history, which now has the longest of the old values: 90d",
      hint: "write retention.history: 90d instead of retention.match_history, retention.person_history",
    },
    {
      path: "retention.reject",
      line: 15,
      message: "was replaced by retention.rejects, which now has the longest of the old values: 14d",
      hint: "write retention.rejects: 14d instead of retention.reject",
    },
  ]);
});

it("a limit of the group is kept, a short one of operations has its least value", async () => {
  const { retention } = await retained("history: 30d, person_history: 90d, api_call: 7d");
  expect(retention).toMatchObject({ historyMs: 30 * 86_400_000, operationsMs: 30 * 86_400_000 });
});

it("a limit by table that can't be compared is refused, and never ignored", async () => {
  for (const keys of ["person_history: soon", 'person_history: 90d, match_history: "${KEEP}"', "reject: 7"]) {
    await expect(retained(keys)).rejects.toMatchObject({
      problems: [{ message: expect.stringContaining("can't be converted") }],
    });
  }
  const env = { KEEP: "60d" };
  const { retention } = await load(`${fine}retention: { reject: "\${KEEP}" }\n`, { env });
  expect(retention).toMatchObject({ rejectsMs: 60 * 86_400_000 });
});

it("the same words elsewhere are still mistakes", async () => {
  await expect(load(`${fine}cursor: updated_at\n`)).rejects.toMatchObject({
    problems: [{ path: "cursor", message: expect.stringContaining("is not a setting") }],
  });
});
