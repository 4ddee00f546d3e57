import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runCli } from "./support/cli.ts";
import { configText, makeSetting } from "./support/setting.ts";

test("check profiles values that together exceed the memory of its process", async () => {
  const setting = await makeSetting();
  await setting.query(`CREATE SCHEMA crm; CREATE TABLE crm.customers (id int PRIMARY KEY, email text, phone text);
    INSERT INTO crm.customers SELECT i, repeat('x', 1000000), repeat('-', 1000000) FROM generate_series(1, 300) AS i`);
  const jobs = "jobs:\n  validate_customers: { type: validate_emails, input: customers }\n";
  await writeFile(
    join(setting.cwd, "config.yaml"),
    configText({ jobs }).replace(
      / {4}fields: .*(?=jobs:)/su,
      "    fields: { emails: email, phones: phone }\n",
    ),
  );
  const { code, stdout } = await runCli(["check"], setting);
  expect(stdout).toContain("email: 100.0 % without @");
  expect(stdout).toContain("phone: 100.0 % placeholders");
  expect(code).toBe(0);
});
