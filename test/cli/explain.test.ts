import { expect, test } from "vitest";
import { runHere, runHereJson } from "./support/in-process.ts";
import { API_KEY, makeSetting } from "./support/setting.ts";

test("explain and plan --show print requests on standard output only, and explain exits 0, 1 or 2", async () => {
  const setting = await makeSetting({ rows: 5 });
  await setting.query(`UPDATE crm.customers SET first_name = 'Grace', last_name = 'Hopper', email = 'grace@example.org',
    work_email = NULL, phone = NULL, city = NULL WHERE id = 1`);
  const here = (...args: string[]) => runHere(["--log-level", "trace", ...args], setting);

  expect((await here("explain", "customers/1")).stdout).toContain("The warehouse isn't set up yet");

  const planned = await here("plan", "resolve_customers", "--show", "1");
  expect(planned.code).toBe(0);
  expect(planned.stdout).toContain(
    'resolve_customers: request 1 of 1, the first of 5 records (with --json: whole requests)\nPOST /v1/resolve\n{\n  "records": [{',
  );
  expect(planned.stdout).toContain(
    '"emails":["grace@example.org"],"first_name":"Grace","last_name":"Hopper"',
  );

  const explained = await here("explain", "customers/01");
  expect(explained.code).toBe(0);
  expect(explained.stdout).toBe(`✓ customers/1 is in the input.

resolve_customers (resolve)
  • Due: not processed yet.
  • Request for this row alone:
    POST /v1/resolve
    {
      "records": [{"record_id":"5612dd382fb85abad6b2d874ff211567","emails":["grace@example.org"],"first_name":"Grace","last_name":"Hopper"}]
    }

validate_customers (validate_emails)
  • grace@example.org: Due: not processed yet.
  • Request for this row alone:
    POST /v2/validate_emails
    {
      "records": ["grace@example.org"]
    }

enrich_customers (enrich)
  • Waiting: resolve_customers hasn't processed its current values yet.
`);
  for (const { stderr } of [planned, explained]) expect(stderr).not.toMatch(/grace|Hopper/iu);
  expect(explained.stdout).not.toContain(API_KEY);

  const missing = await runHereJson(["explain", "customers/4711"], setting);
  expect([missing.code, missing.document["is_known"]]).toEqual([1, false]);
  const messages = [];
  for (const row of ["custmers/1", "orders/1", "customers", "customers/one"]) {
    const { code, document } = await runHereJson(["explain", row], setting);
    messages.push([code, document.error?.message]);
  }
  expect(messages).toEqual([
    [2, "There is no input custmers. Did you mean customers?"],
    [2, "There is no input orders. Inputs of this configuration: customers."],
    [2, "explain takes an input name, a slash and a key, such as customers/4711."],
    [
      2,
      "The key can't be one of the input customers: its column id is of type bigint, and the given text is no such value.",
    ],
  ]);
});
