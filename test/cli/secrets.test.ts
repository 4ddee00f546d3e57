import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type CliResult, runCli, runJson } from "./support/cli.ts";
import {
  API_KEY,
  configText,
  createCustomers,
  makeSetting,
  sampleRows,
  type Setting,
  startSandbox,
} from "./support/setting.ts";

const ROWS = 300;

/** Every text of the input that tells who somebody is. */
function personalTexts(): readonly string[] {
  return sampleRows(ROWS)
    .flatMap((row) => [row.email, row.work_email, row.phone])
    .flatMap((text) => (text === null || text.trim() === "" ? [] : [text.trim()]));
}

/** What of it stands in anything that was printed. */
function leaksIn(results: readonly CliResult[], { url }: Setting): readonly string[] {
  const printed = results.map(({ stdout, stderr }) => stdout + stderr).join("\n");
  const password = decodeURIComponent(new URL(url).password);
  return [API_KEY, password, ...personalTexts()].filter((text) => text !== "" && printed.includes(text));
}

test("nothing that is printed at level trace holds the key, a password, an address or a phone number", async () => {
  const setting = await makeSetting();
  await createCustomers(setting.url, ROWS);
  const faults = "500:0.2,truncated_json:0.2,string_too_long:0.3,429=0:0.1,wrong_types:0.3,nul_text:0.2";
  const baseUrl = await startSandbox(setting.cwd, ["--faults", faults]);
  await writeFile(join(setting.cwd, "config.yaml"), configText({ baseUrl, service: "  concurrency: 2" }));
  const trace = ["--log-level", "trace"];
  const results = [
    await runCli([...trace, "check"], setting),
    await runCli([...trace, "plan"], setting),
    await runCli([...trace, "run"], setting),
    await runJson([...trace, "run", "--resend", "--yes"], setting),
    await runCli([...trace, "status"], setting),
  ];
  expect(results[2]?.stderr.split("\n").length).toBeGreaterThan(10);
  expect(leaksIn(results, setting)).toEqual([]);
});

test("a database whose errors quote rows doesn't make us repeat them", async () => {
  const setting = await makeSetting({ rows: ROWS });
  expect((await runJson(["migrate"], setting)).code).toBe(0);
  await setting.query(
    `CREATE FUNCTION quote_row() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN RAISE EXCEPTION 'this row is bad: %', NEW; END $$;
     CREATE TRIGGER quote_row BEFORE INSERT ON person_data.email_validation FOR EACH ROW EXECUTE FUNCTION quote_row()`,
  );
  const result = await runJson(["--log-level", "trace", "run"], setting);
  expect([result.code, result.document.status]).toEqual([1, "failed"]);
  expect(result.document["jobs"]).toMatchObject([
    { job: "resolve_customers", status: "succeeded" },
    { job: "validate_customers", status: "failed", error: { code: "P0001" } },
    { job: "enrich_customers", status: "skipped" },
  ]);
  expect(result.stderr).toContain('"places":["at ');
  expect(leaksIn([result], setting)).toEqual([]);
});
