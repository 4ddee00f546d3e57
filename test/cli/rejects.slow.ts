import { expect, test } from "vitest";
import { runCli, runJson } from "./support/cli.ts";
import { setFaults } from "./support/controls.ts";
import { makeServed } from "./support/setting.ts";

test("rejected records are listed with what their codes mean, retried and dropped", async () => {
  const jobs = "jobs:\n  enrich_customers: { type: enrich, input: customers }\n";
  const setting = await makeServed({ rows: 40, jobs }, "--faults", "poison=Poison");
  await setting.query("UPDATE crm.customers SET first_name = 'Poison' WHERE id IN (3, 5)");
  expect((await runJson(["rejects", "list"], setting)).document).toMatchObject({
    error: { code: "not_set_up" },
  });
  await runJson(["run"], setting);

  const { document } = await runJson(
    ["rejects", "list", "--job", "enrich_customers", "--limit", "1"],
    setting,
  );
  expect(document).toMatchObject({
    rejects: 2,
    groups: [
      { job: "enrich_customers", stage: "send", rejects: 2, means: expect.stringContaining("service") },
    ],
    records: [{ source: "customers", source_key: "3", resolved_at: null }],
  });
  const shown = await runCli(["rejects", "list"], setting);
  expect(shown.stdout).toContain("The service rejected the record");

  const refused = await runJson(["rejects", "retry"], setting);
  expect([refused.code, refused.document.error?.code]).toEqual([3, "confirmation"]);
  await setFaults(setting.baseUrl, "");
  const retried = await runJson(["rejects", "retry", "--source-key", "customers/3", "--yes"], setting);
  expect([retried.code, retried.document]).toEqual([0, { rejects: 1, due: 1, resolved: 0 }]);
  const run = await runJson(["run"], setting);
  expect(run.document["jobs"]).toMatchObject([{ records_sent: 1, records_rejected: 0 }]);

  const dropped = await runJson(["rejects", "drop", "--yes"], setting);
  expect([dropped.code, dropped.document]).toEqual([0, { rejects: 1 }]);
  expect((await runJson(["rejects", "list"], setting)).document["rejects"]).toBe(0);
  expect((await runJson(["rejects", "list", "--all"], setting)).document["rejects"]).toBe(2);
});
