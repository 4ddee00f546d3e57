import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { unusedPort } from "../support/unused-port.ts";
import { type RunningCli, runCli, runJson, startCli } from "./support/cli.ts";
import { configText, makeSetting, type Setting } from "./support/setting.ts";

/** Starts `ui` and waits for its address. */
async function startUi(
  setting: Setting,
  args: readonly string[] = [],
): Promise<{ readonly cli: RunningCli; readonly url: string }> {
  const cli = startCli(["--json", "ui", ...args], setting);
  const { url }: { url: string } = JSON.parse(await cli.firstLine());
  return { cli, url };
}

it("ui serves the page of an existing warehouse, changes nothing, and ends cleanly", async () => {
  const setting = await makeSetting({ rows: 60 });
  const nothing = await runCli(["ui", "--port", "0"], setting);
  expect([
    nothing.code,
    nothing.stderr.includes("The warehouse isn't set up yet: run `person-etl migrate`"),
  ]).toEqual([2, true]);
  expect(await setting.query("SELECT FROM pg_namespace WHERE nspname LIKE 'person_data%'")).toEqual([]);

  await runJson(["run"], setting);
  const state = `SELECT schemaname, relname, n_tup_ins + n_tup_upd + n_tup_del AS changes FROM pg_stat_user_tables ORDER BY 1, 2`;
  const before = await setting.query(state);
  const { cli, url } = await startUi(setting, ["--port", "0"]);
  const page = await (await fetch(url)).text();
  expect(page).toContain("enrich_customers");
  expect(page).toContain("Schema drift");
  cli.child.kill("SIGTERM");
  const { code, stderr } = await cli.result;
  expect([code, stderr.includes("error")]).toEqual([0, false]);
  await expect(fetch(url)).rejects.toThrow("fetch failed");
  expect(before.length).toBeGreaterThan(30);
  // Sessions report their changes at the latest when they end.
  expect(await setting.query(state)).toEqual(before);
});

it("a run finds every job free while ui serves the page", async () => {
  const setting = await makeSetting({ rows: 60 });
  await runJson(["run"], setting);
  const { cli, url } = await startUi(setting, ["--port", "0"]);
  expect((await fetch(url)).status).toBe(200);
  expect((await runCli(["run"], setting)).code).toBe(0);
  cli.child.kill("SIGINT");
  expect((await cli.result).code).toBe(0);
});

it("ui asks for the token of the configuration, and reports a port in use", async () => {
  const setting = await makeSetting({ rows: 60 });
  const port = await unusedPort();
  await writeFile(
    join(setting.cwd, "config.yaml"),
    `${configText({ rows: 60 })}\nhttp: { port: ${port}, token: "\${PAGE_TOKEN}" }\n`,
  );
  const own = { ...setting, env: { ...setting.env, PAGE_TOKEN: "token-4711-do-not-show" } };
  await runJson(["run"], own);
  const { cli, url } = await startUi(own);
  expect(url).toBe(`http://127.0.0.1:${port}`);
  expect((await fetch(url)).status).toBe(401);
  expect((await fetch(url, { headers: { authorization: "Bearer token-4711-do-not-show" } })).status).toBe(
    200,
  );
  const second = await runCli(["ui"], own);
  expect([second.code, second.stderr.includes(`port ${port} of 127.0.0.1 is in use`)]).toEqual([2, true]);
  cli.child.kill("SIGINT");
  const { code, stdout, stderr } = await cli.result;
  expect([code, (stdout + stderr).includes("token-4711")]).toEqual([0, false]);
});
