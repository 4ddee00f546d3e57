import { expect, it } from "vitest";
import { runCli, runJson, startCli } from "./support/cli.ts";
import { makeSetting } from "./support/setting.ts";

it("ui serves the page of an existing warehouse to holders of the token, changes nothing, and ends cleanly", async () => {
  const made = await makeSetting({ rows: 60 });
  await made.configure({}, 'http: { token: "${PAGE_TOKEN}" }\n');
  const token = "token-4711-do-not-show";
  const setting = { ...made, env: { ...made.env, PAGE_TOKEN: token } };
  const nothing = await runCli(["ui", "--port", "0"], setting);
  expect([
    nothing.code,
    nothing.stderr.includes("The warehouse isn't set up yet: run `person-etl migrate`"),
  ]).toEqual([2, true]);
  expect(await setting.query("SELECT FROM pg_namespace WHERE nspname LIKE 'person_data%'")).toEqual([]);

  await runJson(["run"], setting);
  const state = `SELECT schemaname, relname, n_tup_ins + n_tup_upd + n_tup_del AS changes FROM pg_stat_user_tables ORDER BY 1, 2`;
  const before = await setting.query(state);
  const cli = startCli(["--json", "ui", "--port", "0"], setting);
  const { url }: { url: string } = JSON.parse(await cli.firstLine());
  expect((await fetch(url)).status).toBe(401);
  const page = await (await fetch(url, { headers: { authorization: `Bearer ${token}` } })).text();
  expect(page).toContain("enrich_customers");
  expect(page).toContain("Schema drift");
  cli.child.kill("SIGTERM");
  const { code, stdout, stderr } = await cli.result;
  expect([code, stderr.includes("error"), (stdout + stderr).includes(token)]).toEqual([0, false, false]);
  await expect(fetch(url)).rejects.toThrow("fetch failed");
  expect(before.length).toBeGreaterThan(30);
  // Sessions report their changes at the latest when they end.
  expect(await setting.query(state)).toEqual(before);
});
