import { dirname, resolve } from "node:path";
import { expect, it } from "vitest";
import { fine, load, problemsOf } from "./support.ts";

const withPublish = (text: string) => `publish:\n${text}\n${fine}`;

it("destinations get their defaults and absolute paths, in the order of the file", async () => {
  const config = await load(
    withPublish(`  local: { type: duckdb, path: copies/people.duckdb, every: 15m }
  analytics: { type: bigquery, project: my-project, location: EU, tables: [person, person_email] }`),
  );
  expect(config.publish).toEqual([
    {
      name: "local",
      type: "duckdb",
      path: resolve(dirname(config.file), "copies/people.duckdb"),
      everyMs: 900_000,
      tables: null,
    },
    {
      name: "analytics",
      type: "bigquery",
      project: "my-project",
      location: "EU",
      dataset: "person_data",
      opsDataset: "person_data_ops",
      credentialsFile: null,
      impersonate: null,
      apiEndpoint: null,
      everyMs: null,
      tables: ["person", "person_email"],
    },
  ]);
});

it("wrong tables, shared places and odd names are reported at once", async () => {
  const problems = await problemsOf(
    withPublish(`  local: { type: duckdb, path: a.duckdb, tables: [person_email, persn, job_lock] }
  other: { type: duckdb, path: a.duckdb }
  Third: { type: duckdb, path: b.duckdb }`),
  );
  expect(problems).toEqual([
    "2 publish.local.tables[0]: requires person, which isn't listed (add person)",
    "2 publish.local.tables[1]: is not a table that can be published (did you mean person?)",
    "2 publish.local.tables[2]: is not a table that can be published (see the reference of tables)",
    "3 publish.other: has the same target as local (each destination needs its own target)",
    "4 publish.Third: is not a valid name (use lower-case letters, digits and _, starting with a letter; at most 63 characters)",
  ]);
});
