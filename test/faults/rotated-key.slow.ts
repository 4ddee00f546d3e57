import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runJson } from "../cli/support/cli.ts";
import { atEnd } from "../cli/support/at-end.ts";
import { configText, createCustomers, makeSetting, startSandbox } from "../cli/support/setting.ts";
import { forward, startServer } from "../support/http-proxy.ts";
import { controlSandbox } from "../support/sandbox-control.ts";

const ENRICH = "jobs:\n  enrich_customers: { type: enrich, input: customers }\n";
const ROWS = 160;

test("a key that is rotated while the job runs is read again, and the job continues", {
  timeout: 120_000,
}, async () => {
  const setting = await makeSetting();
  await createCustomers(setting.url, ROWS);
  const sandbox = await startSandbox(setting.cwd, ["--faults", "413=20"]);
  const file = join(setting.cwd, "service.key");
  let valid = "first-key";
  await writeFile(file, valid);
  await chmod(file, 0o600);
  let [answered, refused] = [0, 0];
  // A service that accepts another key after five calls.
  const gate = await startServer(async (request, response, asked) => {
    if (answered >= 5 && valid === "first-key") {
      valid = "second-key";
      await writeFile(file, valid);
    }
    if (request.headers["x-api-key"] !== valid) {
      refused += 1;
      response.writeHead(401, { "content-type": "application/json" }).end('{"code":"unauthorized"}');
      return;
    }
    const { status, headers, body } = await forward(sandbox, request, asked);
    if (request.method === "POST" && status === 200) answered += 1;
    response.writeHead(status, headers).end(body);
  });
  atEnd(() => gate.close());
  const text = configText({ baseUrl: gate.url, jobs: ENRICH, service: "  concurrency: 2\n" });
  await writeFile(
    join(setting.cwd, "config.yaml"),
    text.replace("${PERSON_SERVICE_API_KEY}", "file:service.key"),
  );
  const { code, document } = await runJson(["run"], setting);
  expect([code, document.status]).toEqual([0, "succeeded"]);
  expect([refused > 0, refused <= 2]).toEqual([true, true]);
  const ledger = await controlSandbox(sandbox, "/ledger");
  expect(ledger).toMatchObject({ contents: { billed_more_than_once: 0 } });
});
