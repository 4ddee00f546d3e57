import { readFile, readdir, rm, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { makeFolder, runCli, runJson, startCli } from "../cli/support/cli.ts";
import { configText, makeSetting, type Setting } from "../cli/support/setting.ts";
import { atEnd } from "../cli/support/at-end.ts";
import { rowsOfFile } from "../publish/duckdb-context.ts";
import { buildImage, type BuiltImage } from "./build-image.ts";

const JOBS = `jobs:
  resolve_customers: { type: resolve, input: customers, schedule: "15 ${(new Date().getUTCHours() + 12) % 24} * * *" }
  enrich_customers: { type: enrich, input: customers, pid_from: resolve_customers }
`;

let image: BuiltImage;
beforeAll(async () => {
  const folder = await makeFolder();
  atEnd(() => rm(folder, { recursive: true, force: true }));
  image = await buildImage(folder);
});

/** Runs commands like containers of the image: as process 1 of a PID namespace each. */
function containersOf(setting: Setting) {
  const { root, env, entrypoint } = image;
  return {
    cwd: join(root, "app"),
    env: { ...setting.env, ...env },
    command: ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", ...entrypoint] as const,
  };
}

test("a container of the image makes a first run, publishes to DuckDB, erases, and continues after a restart", async () => {
  const setting = await makeSetting({ rows: 120 });
  const path = join(image.root, "data/people.duckdb");
  await mkdir(join(image.root, "config"));
  const more = `publish: { local: { type: duckdb, path: ${path} } }\nhttp: { port: 0 }\n`;
  await writeFile(join(image.root, "config/config.yaml"), `${configText({ jobs: JOBS })}${more}`);
  const containers = containersOf(setting);
  const ofDestination = async () => {
    const { document } = await runJson(["check"], containers);
    const checks = document["checks"] as readonly { readonly subject: string }[];
    return checks.filter(({ subject }) => subject === "publish.local");
  };
  expect(await ofDestination()).toMatchObject([{ status: "ok" }]);

  const { stdout: help } = await runCli(["run", "--help"], containers);
  const page = /^Documentation: (.*)$/mu.exec(help)?.[1] ?? "";
  expect(await readFile(join(image.root, "app", page), "utf8")).toMatch(/^# /u);

  const first = await runJson(["run"], containers);
  expect([first.code, first.document["publications"]]).toMatchObject([0, [{ status: "published" }]]);
  const [person] = await rowsOfFile(path, "person");
  const pid = String(person?.["service_pid"]);
  const erased = await runJson(["erase", "--pid", pid, "--yes"], containers);
  expect([erased.code, erased.document.status]).toEqual([0, "done"]);
  const left = await rowsOfFile(path, "person");
  expect(left.length).toBeGreaterThan(10);
  expect(left.map((row) => row["service_pid"])).not.toContain(pid);

  const running = startCli(["--json", "schedule"], containers);
  await running.firstLine();
  const children = await readFile(`/proc/${running.child.pid}/task/${running.child.pid}/children`, "utf8");
  process.kill(Number(children), "SIGTERM");
  expect((await running.result).code).toBe(143);
  const second = await runJson(["run"], containers);
  expect([second.code, second.document["publications"]]).toMatchObject([0, [{ status: "published" }]]);

  const bindings = (await readdir(join(image.root, "app/node_modules/@duckdb"))).filter((name) =>
    name.startsWith("node-bindings-"),
  );
  for (const name of bindings)
    await rm(join(image.root, "app/node_modules/@duckdb", name), { recursive: true });
  expect(await ofDestination()).toMatchObject([
    { status: "wrong", hint: expect.stringContaining("--omit=optional") },
  ]);
  expect((await runCli(["publish"], containers)).stderr).toContain(
    "DuckDB's package for this system is missing",
  );
});
