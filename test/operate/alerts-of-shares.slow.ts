import { describe, expect, test } from "vitest";
import { configOf, startWorld } from "../jobs/world.ts";
import { conclude, runAndConclude, startWebhook, warnings } from "./alerts-world.ts";

const enrich = "\n  enrich_customers: { type: enrich, input: customers }";

/** A customer table that begins empty; `add` moves rows of the sample into it. */
async function startGrowing(config: string) {
  const world = await startWorld({ rows: 3300, config });
  await world.rows("CREATE TABLE crm.rest AS TABLE crm.customers; TRUNCATE crm.customers");
  return {
    world,
    add: (rows: number) =>
      world.rows(`WITH moved AS (DELETE FROM crm.rest WHERE id IN (SELECT id FROM crm.rest ORDER BY id LIMIT ${rows})
        RETURNING *) INSERT INTO crm.customers SELECT * FROM moved`),
    /** Makes the next rows unknown to the service. */
    spoil: (rows: number) =>
      world.rows(`UPDATE crm.rest SET first_name = 'Q' || id, last_name = 'Xq' || id, email = 'q' || id || '@nowhere.example',
        work_email = NULL, phone = NULL, linkedin = NULL WHERE id IN (SELECT id FROM crm.rest ORDER BY id LIMIT ${rows})`),
  };
}

describe("match_rate", () => {
  test("is reported once when it falls by more than a fifth among new rows, whatever else a run sends", async () => {
    const webhook = await startWebhook();
    const config = configOf(
      "\n  enrich_customers: { type: enrich, input: customers, refresh_unmatched_after: 30d }",
      `alerts: { webhook: "${webhook.setting}", on: [match_rate] }`,
    );
    const { world, add, spoil } = await startGrowing(config);
    // A trial of rows that don't match, then nights of similar size.
    await spoil(40);
    await add(650);
    await runAndConclude(world, { maxRecords: 40 });
    await runAndConclude(world);
    await add(650);
    await runAndConclude(world);
    expect(webhook.take()).toEqual([]);

    await spoil(325);
    await add(650);
    const report = await runAndConclude(world);
    expect(webhook.take()).toEqual([
      [
        "match_rate enrich_customers new_rows",
        "low_match_rate",
        expect.stringMatching(
          /^enrich_customers: 4\d\.\d% of new and changed rows of customers matched \(\d+ of \d+\); the median of the 2 runs before was 8\d\.\d%\.$/,
        ),
      ],
    ]);
    // The same run, and another one that is as low.
    await conclude(world, report);
    await spoil(160);
    await add(650);
    await runAndConclude(world);
    expect(webhook.take()).toEqual([]);

    await world.rows("DELETE FROM person_data_state.alert_state");
    // A night that only asks again for those that never matched, and one with nothing to send.
    await world.rows(
      "UPDATE person_data_state.lookup_answer SET answered_at = answered_at - interval '40 days' WHERE outcome = 'unmatched'",
    );
    const retried = await runAndConclude(world);
    expect(retried.jobs[0]?.records_sent).toBeGreaterThan(600);
    expect(retried.jobs[0]?.records_matched).toBe(0);
    await runAndConclude(world);
    expect(webhook.take()).toEqual([]);
    expect(warnings(world)).toEqual([]);
  });

  test("is reported when rows that matched don't any more", async () => {
    const webhook = await startWebhook();
    const { world, add } = await startGrowing(
      configOf(enrich, `alerts: { webhook: "${webhook.setting}", on: [match_rate] }`),
    );
    for (const rows of [650, 10, 10]) {
      await add(rows);
      await runAndConclude(world);
    }
    // An export that lost most of its columns.
    await world.rows(`UPDATE crm.customers SET first_name = 'Q' || id, last_name = 'Xq' || id, email = NULL, work_email = NULL,
      phone = NULL, linkedin = NULL WHERE id % 3 = 0`);
    await runAndConclude(world, { yes: true });
    expect(webhook.take()).toEqual([
      [
        "match_rate enrich_customers all_rows",
        "low_match_rate",
        expect.stringContaining("of all processed rows of customers matched"),
      ],
    ]);
  });
});

test("coverage names each field that fell, with its figures, once", async () => {
  const webhook = await startWebhook();
  const config = (job: string) => configOf(job, `alerts: { webhook: "${webhook.setting}", on: [coverage] }`);
  const { world, add } = await startGrowing(config(enrich));
  for (let night = 0; night < 2; night += 1) {
    await add(700);
    await runAndConclude(world);
  }
  expect(webhook.take()).toEqual([]);
  await add(700);
  const report = await world.run();
  // As if the service had left them out in this night.
  const ofRun = `_run_id = '${report.run_id}'`;
  await world.rows(`UPDATE person_data.person SET gender = NULL WHERE ${ofRun};
    DELETE FROM person_data.person_address WHERE ${ofRun} AND service_pid < (SELECT percentile_disc(0.3) WITHIN GROUP (ORDER BY service_pid) FROM person_data.person)`);
  await conclude(world, report);
  const posted = webhook.take();
  expect(posted.map(([subject, state]) => [subject, state])).toEqual([
    ["coverage enrich_customers person.gender", "low_coverage"],
    ["coverage enrich_customers person_address", "low_coverage"],
  ]);
  const known = await world.value(`SELECT count(*) FROM person_data.person WHERE ${ofRun}`);
  expect(posted[0]?.[2]).toMatch(
    new RegExp(
      `^enrich_customers: 0\\.0% of the people received have person\\.gender \\(0 of ${known}\\); the median of the 2 runs before was [\\d.]+%\\.$`,
    ),
  );
  await conclude(world, report);
  expect(webhook.take()).toEqual([]);

  // Other parameters have other fields: nothing to compare with.
  world.configure(config(enrich.replace(" }", ", return_fields: [full_name] }")));
  await runAndConclude(world, { acceptParameters: "resend", yes: true });
  expect(webhook.take()).toEqual([]);
  expect(warnings(world)).toEqual([]);
});
