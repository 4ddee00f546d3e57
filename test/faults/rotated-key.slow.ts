import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runJson } from "../cli/support/cli.ts";
import { atEnd } from "../cli/support/at-end.ts";
import {
  configText,
  createCustomers,
  makeSetting,
  type Setting,
  startSandbox,
} from "../cli/support/setting.ts";
import { type KeyGate, startKeyGate } from "./key-gate.ts";

const ENRICH = "jobs:\n  enrich_customers: { type: enrich, input: customers }\n";
const ROWS = 160;

/** A warehouse with customers, and a service that accepts the key in the file next to the configuration. */
async function makeKeyed(): Promise<
  Setting & { readonly sandbox: string; readonly gate: KeyGate; writeKey(key: string): Promise<void> }
> {
  const setting = await makeSetting();
  await createCustomers(setting.url, ROWS);
  const sandbox = await startSandbox(setting.cwd, ["--faults", "413=20"]);
  const gate = await startKeyGate(sandbox, "first-key");
  atEnd(() => gate.close());
  const file = join(setting.cwd, "service.key");
  const writeKey = async (key: string) => {
    await writeFile(file, `${key}\n`);
    await chmod(file, 0o600);
  };
  await writeKey("first-key");
  const text = configText({ baseUrl: gate.url, jobs: ENRICH, service: "  concurrency: 2\n" });
  await writeFile(
    join(setting.cwd, "config.yaml"),
    text.replace("${PERSON_SERVICE_API_KEY}", "file:service.key"),
  );
  return { ...setting, sandbox, gate, writeKey };
}

/** Counts of the service: records that it answered, and those of them that it billed more than once. */
async function countsOf(
  sandbox: string,
): Promise<{ distinct_records: number; billed_more_than_once: number }> {
  // Answer of the sandbox's controls.
  const { contents } = (await (await fetch(`${sandbox}/_sandbox/ledger`)).json()) as {
    contents: { distinct_records: number; billed_more_than_once: number };
  };
  return contents;
}

const loadedRecords =
  "SELECT count(*)::int AS records FROM person_data_state.lookup_answer WHERE outcome <> 'rejected'";

test("a key that is rotated while the job runs is read again, and the job continues", {
  timeout: 120_000,
}, async () => {
  const setting = await makeKeyed();
  setting.gate.accept("second-key", 5, () => setting.writeKey("second-key"));
  const { code, document } = await runJson(["run"], setting);
  expect([code, document.status]).toEqual([0, "succeeded"]);
  expect(setting.gate.refused).toBeGreaterThan(0);
  expect(setting.gate.refused).toBeLessThanOrEqual(2);
  expect(await countsOf(setting.sandbox)).toMatchObject({ billed_more_than_once: 0 });
});

test("a key that is revoked while the job runs ends it, with every answer loaded; with another one the next run does the rest", {
  timeout: 120_000,
}, async () => {
  const setting = await makeKeyed();
  setting.gate.accept("second-key", 3);
  const stopped = await runJson(["run"], setting);
  expect(stopped.code).toBe(1);
  expect(stopped.stdout + stopped.stderr).toContain("key_rejected");
  expect(stopped.stdout + stopped.stderr).not.toContain("first-key");
  const { distinct_records } = await countsOf(setting.sandbox);
  expect(await setting.query(loadedRecords)).toEqual([{ records: distinct_records }]);
  // Three answered calls of at most 20 records, and one that was under way.
  expect(distinct_records).toBeGreaterThan(0);
  expect(distinct_records).toBeLessThanOrEqual(80);

  await setting.writeKey("second-key");
  const next = await runJson(["run"], setting);
  expect([next.code, next.document.status]).toEqual([0, "succeeded"]);
  expect(
    await setting.query(
      "SELECT count(*)::int AS rows FROM person_data_state.lookup_row JOIN person_data_state.lookup_answer USING (content)",
    ),
  ).toEqual([{ rows: ROWS }]);
  expect(await countsOf(setting.sandbox)).toMatchObject({ billed_more_than_once: 0 });
});
