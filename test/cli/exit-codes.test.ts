import { expect, test } from "vitest";
import { runHere, runHereJson } from "./support/in-process.ts";
import { makeSetting } from "./support/setting.ts";

/** Returns the jobs in the document of `run --json`. */
function jobsOf(document: { readonly [key: string]: unknown }): readonly object[] {
  return document["jobs"] as readonly object[]; // by the contract
}

test("plan creates nothing on an empty database, not even the sample table", async () => {
  const setting = await makeSetting();
  const { code, document } = await runHereJson(["plan"], setting);
  expect([code, document.error?.problems?.[0]?.path]).toEqual([2, "inputs.customers.table"]);
  expect(await setting.query("SELECT nspname FROM pg_namespace WHERE nspname ~ '^(crm|person)'")).toEqual([]);
});

test("the user's own cap exits 0, an unknown job 2, a missing confirmation 3", async () => {
  const setting = await makeSetting({ rows: 60 });
  const capped = await runHereJson(["run", "resolve_customers", "--max-records", "10"], setting);
  expect([capped.code, capped.document.status]).toEqual([0, "limited"]);
  expect(jobsOf(capped.document)[0]).toMatchObject({ limited_by: "max_records", records_sent: 10 });

  const unknown = await runHereJson(["run", "resolve_custmers"], setting);
  expect([unknown.code, unknown.document.status]).toEqual([2, "failed"]);
  expect(unknown.document.error?.problems?.[0]?.path).toBe("jobs.resolve_custmers");

  const asked = await runHereJson(["run", "resolve_customers", "--resend"], setting);
  expect([asked.code, asked.document.status]).toEqual([3, "limited"]);
  expect(jobsOf(asked.document)[0]).toMatchObject({ limited_by: "confirmation", records_sent: 0 });

  const agreed = await runHereJson(["run", "resolve_customers", "--resend", "--yes"], setting);
  expect([agreed.code, agreed.document.status]).toEqual([0, "succeeded"]);
});

test("migrate prints the DDL without a database, creates the tables, and finds them there", async () => {
  const setting = await makeSetting();
  const nowhere = { ...setting, env: { ...setting.env, WAREHOUSE_URL: "postgresql://u@127.0.0.1:1/none" } };
  const printed = await runHere(["migrate", "--print"], nowhere);
  expect(printed.code).toBe(0);
  expect(printed.stdout).toMatch(/create table "person_data"\."person"/i);

  expect((await runHereJson(["migrate"], setting)).document["migrations"]).toEqual([
    "0001-tables",
    "0002-derived-columns",
    "0003-reader-indexes",
    "0004-fingerprint",
    "0005-index-of-sent-content",
    "0006-answers-by-content",
    "0007-places-and-requests",
    "0008-database-of-destination",
  ]);
  expect((await runHereJson(["migrate"], setting)).document["migrations"]).toEqual([]);
});
