import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { runCli, runJson } from "./support/cli.ts";
import { configText, createCustomers, makeSetting } from "./support/setting.ts";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

const guide = readFileSync(new URL("../../docs/first-night.md", import.meta.url), "utf8");

/** Commands of the guide's code block. */
const commands = (/```sh\n(.*?)```/su.exec(guide)?.[1] ?? "")
  .trim()
  .split("\n")
  .map((line) => line.replace(/^person-etl /u, "").split(" "));

test("the commands of the first night run as written, without a question", { timeout: 180_000 }, async () => {
  const setting = await makeSetting();
  await createCustomers(setting.url, 900);
  // Far more is due than this in the first full run.
  await writeFile(
    join(setting.cwd, "config.yaml"),
    `${configText()}confirm_above: { records: 100, ratio: 0.2 }\n`,
  );
  const ran = [];
  for (const command of commands) {
    const { code, stdout } = await runCli(command, setting);
    ran.push([command.join(" "), code, /needs --yes/u.test(stdout)]);
  }
  expect(ran).toEqual([
    ["check", 0, false],
    ["migrate", 0, false],
    ["plan", 0, false],
    ["run --max-records 100", 0, false],
    ["status", 0, false],
    ["plan", 0, false],
    ["run --run-id first-night", 0, false],
    ["plan", 0, false],
  ]);
  const { document } = await runJson(["status"], setting);
  expect(document).toMatchObject({
    jobs: [
      { freshness: "fresh", coverage: { due: 0 } },
      { freshness: "fresh", coverage: { due: 0 } },
      { freshness: "fresh", coverage: { due: 0 } },
    ],
    attention: [],
  });
});
