import { expect, test } from "vitest";
import { runCli } from "./support/cli.ts";
import { makeServed, type Setting } from "./support/setting.ts";

const JOBS = `jobs:
  audiences: { type: audience_search, searches: { nurses: { query: registered nurses in Ohio } } }
`;

async function prepare() {
  const setting = await makeServed({ jobs: JOBS }, "--people", "20000");
  expect(await runJson(["migrate"], setting)).toMatchObject({ code: 0 });
  return setting;
}

async function runJson(args: readonly string[], setting: Setting): Promise<Record<string, unknown>> {
  const { code, stdout } = await runCli(["--json", ...args], setting);
  // Output of `--json`.
  const document = JSON.parse(stdout) as object;
  return { ...document, code };
}

test("search prints people, coverage and what an unlock of all matches would be billed, and stores nothing", async () => {
  const setting = await prepare();
  const { code, stdout } = await runCli(["search", "registered nurses in Ohio", "--size", "3"], setting);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^\d+ people match, 3 shown\.$/m);
  expect(stdout.match(/^p-\w+\s*$/gm)).toHaveLength(3);
  expect(stdout).toMatch(/^professional email\s+\d+\s+\d+$/m);
  expect(stdout).toMatch(
    /^Unlocking an audience_search of this query would bill up to \d+ records\. Nothing was unlocked\.$/m,
  );
  const document = await runJson(["search", "registered nurses in Ohio", "--size", "3"], setting);
  expect(document).toMatchObject({ code: 0, result_count: 3, results: expect.any(Array) });
  expect(await setting.query("SELECT count(*)::int AS rows FROM person_data.person_search")).toEqual([
    { rows: 0 },
  ]);
  expect(
    await setting.query("SELECT job, count(*)::int AS calls FROM person_data_ops.api_call GROUP BY 1"),
  ).toEqual([{ job: "search", calls: 4 }]);
  expect(await runJson(["search", "Jane Doe"], setting)).toMatchObject({
    code: 1,
    error: { code: "no_filters_extracted" },
  });
});

test("audience lists and shows audiences, and unlocks one only after a confirmation and within its ceiling", async () => {
  const setting = await prepare();
  expect(await runJson(["audience", "unlock", "nurses", "--yes"], setting)).toMatchObject({
    code: 1,
    error: {
      code: "audience_unfinished",
      message: "audiences/nurses was not submitted yet, so there is nothing to unlock. Run audiences first.",
    },
  });
  expect(await runJson(["run"], setting)).toMatchObject({ code: 0 });
  const listed = await runCli(["audience", "list"], setting);
  expect(listed.stdout).toMatch(/^audiences\/nurses\s+completed\s+(\d+)\s+\1\s+no\s+0\s*$/m);
  const shown = await runCli(["audience", "show", "audiences/nurses"], setting);
  expect(shown.stdout).toMatch(/^Locked; an unlock bills up to \d+ records\.$/m);
  expect(shown.stdout).toMatch(/^Female\s+\d+\s+[\d.]+$/m);
  expect(await runJson(["audience", "show", "nurse"], setting)).toMatchObject({
    code: 2,
    error: { code: "unknown_audience" },
  });

  expect(await runJson(["audience", "unlock", "nurses"], setting)).toMatchObject({
    code: 3,
    error: {
      code: "confirmation",
      message: expect.stringMatching(
        /^audiences: unlocking nurses bills up to \d+ records; the ceiling is \d+\. Nothing was sent; run again with --yes to confirm\.$/,
      ),
    },
  });
  expect(
    await runJson(["audience", "unlock", "nurses", "--max-billable", "1", "--yes"], setting),
  ).toMatchObject({ code: 3, error: { code: "unlock_ceiling" }, results_unlocked: false });
  await setting.configure({}, "budgets: { unlock: { per_month: 1 } }\n");
  expect(await runCli(["audience", "unlock", "nurses", "--yes"], setting)).toMatchObject({
    code: 3,
    stdout: expect.stringContaining("audiences/nurses was not unlocked: The budget of the month is used up."),
  });
  await setting.configure({});
  const unlocked = await runJson(["audience", "unlock", "nurses", "--yes"], setting);
  expect(unlocked).toMatchObject({ code: 0, results_unlocked: true, members: unlocked["billable_count"] });
  // Nothing is asked or billed a second time.
  expect(await runJson(["audience", "unlock", "nurses"], setting)).toMatchObject({
    code: 0,
    results_unlocked: true,
  });
  expect(
    await setting.query(
      "SELECT count(*)::int AS calls FROM person_data_ops.api_call WHERE endpoint LIKE 'POST %/results' AND http_status = 200",
    ),
  ).toEqual([{ calls: 1 }]);
  await setting.query("UPDATE person_data.audience_search SET total_count = NULL, results_unlocked = false");
  expect(await runJson(["audience", "unlock", "nurses", "--yes"], setting)).toMatchObject({
    code: 1,
    error: {
      message:
        "audiences/nurses has no total_count yet, so the cost of an unlock is unknown. Nothing was unlocked.",
    },
  });
});
