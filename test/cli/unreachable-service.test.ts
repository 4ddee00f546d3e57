import { expect, test } from "vitest";
import { runJson } from "./support/cli.ts";
import { createCustomers, makeSetting, unusedPort } from "./support/setting.ts";

const RESOLVE = "jobs:\n  resolve_customers: { type: resolve, input: customers }\n";

test("an unreachable service fails the run, and check says where it was looked for", async () => {
  const port = await unusedPort();
  const setting = await makeSetting({ baseUrl: `http://127.0.0.1:${port}`, jobs: RESOLVE });
  await createCustomers(setting.url, 20);
  const checked = await runJson(["check"], setting);
  expect(checked.code).toBe(1);
  expect(checked.document["checks"]).toContainEqual({
    subject: "service",
    status: "unreachable",
    message: `http://127.0.0.1:${port} doesn't answer (ECONNREFUSED)`,
    hint: "check service.base_url, the network and the proxy, then try again",
  });
  const run = await runJson(["run"], setting);
  expect([run.code, run.document.status]).toEqual([1, "failed"]);
  expect(run.document["jobs"]).toMatchObject([
    { status: "failed", records_sent: 0, error: { message: expect.stringContaining("service.base_url") } },
  ]);
});
