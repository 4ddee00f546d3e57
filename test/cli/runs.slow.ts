import { expect, test } from "vitest";
import { runHere, runHereJson } from "./support/in-process.ts";
import { makeSetting } from "./support/setting.ts";

const RESOLVE = "jobs:\n  resolve_customers: { type: resolve, input: customers }\n";

test("runs list and runs show report earlier runs like the run itself, by a prefix of their ID", async () => {
  const prices = "prices: { currency: USD, resolve: 0.01 }\n";
  const setting = await makeSetting({ rows: 40, jobs: RESOLVE + prices });
  const here = (...args: string[]) => runHere(args, setting);
  const json = (...args: string[]) => runHereJson(args, setting);

  const trial = (await json("run", "--run-id", "trial-1", "--max-records", "10")).document;
  const whole = (await json("run", "--run-id", "trial-2")).document;

  const { code, document: shown } = await json("runs", "show", "trial-1");
  expect(code).toBe(0);
  const { seconds: _, ...job } = (trial["jobs"] as object[])[0] as { seconds: number };
  expect(shown).toMatchObject({ run_id: "trial-1", status: "limited", jobs: [job], cost: trial["cost"] });
  expect(shown["possibly_billed"]).toBe(0);

  expect((await json("runs", "list")).document).toMatchObject({
    runs: [
      { run_id: "trial-2", status: "succeeded", possibly_billed: 0 },
      {
        run_id: "trial-1",
        status: "limited",
        records_sent: 10,
        jobs: [{ job: "resolve_customers", status: "limited", limited_by: "max_records" }],
      },
    ],
  });
  const listed = (await here("runs", "list")).stdout;
  expect(listed).toMatch(/trial-2 .* succeeded /);
  expect(listed).toMatch(/trial-1 .* limited \(max_records\) .* 10 /);

  const text = (await here("runs", "show", "trial-2")).stdout;
  expect(text).toMatch(/^Run trial-2, started at \d{4}-\d\d-\d\d \d\d:\d\d UTC\n/);
  const { records_sent: sent } = (whole["jobs"] as { records_sent: number }[])[0] ?? {};
  expect(text).toContain(`${sent} records sent`);
  expect(text).toContain("Cost: $");
  expect(text).not.toContain("To leave the trial");

  const several = await here("runs", "show", "trial");
  expect([several.code, several.stderr]).toEqual([
    2,
    "✗ Several runs have an ID that begins with trial: trial-2, trial-1. Give more of the ID.\n",
  ]);
  const unknown = await here("runs", "show", "nope");
  expect(unknown.code).toBe(2);
  expect(unknown.stderr).toMatch(
    /^✗ No run has an ID that begins with nope\. `.*person-etl runs list` shows the last runs\.\n$/,
  );
});

test("a run whose process was killed is shown as interrupted, with what may have been billed", async () => {
  const setting = await makeSetting({ rows: 40, jobs: RESOLVE });
  expect((await runHere(["run", "--run-id", "one"], setting)).code).toBe(0);
  // As a killed process leaves it: a run without an end, and a call without a response.
  await setting.query(
    "UPDATE person_data_ops.sync_run SET status = 'running', finished_at = NULL WHERE run_id = 'one'",
  );
  await setting.query(
    `UPDATE person_data_ops.api_call SET records_in_doubt = 25, http_status = NULL
     WHERE call_id = (SELECT call_id FROM person_data_ops.api_call WHERE records_sent >= 25 LIMIT 1)`,
  );
  const { document } = await runHereJson(["runs", "show", "one"], setting);
  expect(document).toMatchObject({
    status: "interrupted",
    possibly_billed: 25,
    jobs: [{ status: "interrupted", possibly_billed: 25, error: { code: "lock_expired" } }],
  });
  const { stdout } = await runHere(["runs", "show", "one"], setting);
  expect(stdout).toContain("Up to 25 records may have been billed without a response.");
  expect((await runHere(["runs", "list"], setting)).stdout).toMatch(
    /possibly billed\n.*\n.*interrupted.* 25\n/,
  );
});
