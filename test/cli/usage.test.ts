import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { launcher, makeFolder, runCli } from "./support/cli.ts";
import { runHere, runHereJson } from "./support/in-process.ts";

test.for([
  [["run", "--shard", "2/2"], "Expected I/N, with I from 0 to N - 1"],
  [["plan", "--shard", "1.5/2"], "Expected I/N, with I from 0 to N - 1"],
  [["run", "--refresh"], `Unknown option '--refresh'. See bin/person-etl run --help.`],
  [["run", "--dryrun"], "Unknown option '--dryrun'. Did you mean --dry-run?"],
  [
    ["run", "--env", "prod"],
    "Unknown option '--env'. Write one file per environment, and choose it with --config prod.yaml.",
  ],
  [["--profile=dev", "check"], "Write one file per environment, and choose it with --config prod.yaml."],
  [["run", "--dry-run", "--full-refresh"], "--dry-run can't predict --full-refresh."],
  [
    ["run", "--wait", "resolve_customers"],
    "--wait resolve_customers is not a duration such as 90s, 10m or 2h. Name jobs",
  ],
  [["run", "--max-records", "-1"], "Expected a whole number, 0 or more"],
  [["run", "--accept-parameters", "maybe"], "Allowed choices are resend, keep"],
  [["--log-level", "loud", "run"], "Allowed choices are trace, debug, info, warn, error, silent"],
  [["status", "extra"], "Too many arguments for 'status'. Expected 0 arguments but got 1. See"],
  [["erase", "clients/1"], "Expected 0 arguments but got 1. Did you mean --source-key …?"],
  [["erase", "p-1a2b"], "Expected 0 arguments but got 1. Did you mean --pid …?"],
  [["erase", "Ann@example.com"], "Expected 0 arguments but got 1. Did you mean --email …?"],
  [["erase", "--emial=ann@example.com"], "Unknown option '--emial'. See"],
  [["transmogrify"], `Unknown command 'transmogrify'. See bin/person-etl --help.`],
  [["validate"], "Unknown command 'validate'. Did you mean check?"],
  [["rejects", "lst"], `Unknown command 'lst'. Did you mean list? See bin/person-etl rejects --help.`],
  [["completion", "tcsh"], "Choose bash, zsh or fish."],
  [[], `No command given. See bin/person-etl --help.`],
] as const)("%j is refused with exit code 2 and one document", async ([args, message]) => {
  const { code, document, stderr } = await runHereJson(args, await makeFolder());
  expect(code).toBe(2);
  expect(document.error?.code).toBe("usage");
  expect(document.error?.message).toContain(message);
  expect(stderr).not.toContain("    at ");
});

test("the global options may stand after the command too", async () => {
  const cwd = await makeFolder();
  const result = await runHere(
    ["status", "--json", "--config", "elsewhere.yaml", "--log-level", "silent"],
    cwd,
  );
  expect([result.code, result.stderr]).toEqual([2, ""]);
  expect(JSON.parse(result.stdout)).toEqual({
    jobs: [],
    error: { code: "no_configuration", message: expect.stringContaining(join(cwd, "elsewhere.yaml")) },
  });
});

test("without a terminal a failure is one JSON line on standard error and text on standard output", async () => {
  const { code, stdout, stderr } = await runCli(["status"], { cwd: await makeFolder() });
  expect(code).toBe(2);
  expect(stdout).toMatch(/^✗ No configuration at .*; create one with `person-etl init`, or pass --config\n$/);
  const lines = stderr.trimEnd().split("\n");
  expect(lines).toHaveLength(1);
  expect(JSON.parse(lines[0] ?? "")).toMatchObject({
    level: "error",
    event: "command_failed",
    code: "no_configuration",
    exit_code: 2,
  });
});

test("without a terminal a wrong command line is one message on standard error", async () => {
  const message = `✗ Unknown command 'transmogrify'. See bin/person-etl --help.\n`;
  for (const level of ["info", "silent"]) {
    const result = await runHere(["--log-level", level, "transmogrify"], await makeFolder());
    expect(result).toEqual({ code: 2, stdout: "", stderr: message });
  }
});

test("the launcher finds its Node.js through links and from any folder, before the node on PATH", async () => {
  const cwd = await makeFolder({ "bin/node": "#!/bin/sh\necho v16.0.0\n" });
  await symlink(launcher, join(cwd, "person-etl"));
  const { stdout } = await promisify(execFile)("sh", ["-c", "chmod +x bin/node && ./person-etl --version"], {
    cwd,
    env: { PATH: `${join(cwd, "bin")}:/usr/bin:/bin` },
  });
  expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
});
