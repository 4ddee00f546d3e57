import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Config } from "../../src/config/config.ts";
import { FixConfigurationError } from "../../src/errors.ts";
import { findJob, selectJobs } from "../../src/jobs/job-selection.ts";
import { serviceHostOf } from "../../src/jobs/service-identity.ts";
import { jobTypes } from "../../src/jobs/registry.ts";
import { readShard, shardText, shareLimits, shareOf, wholeInput } from "../../src/jobs/services.ts";
import { tables } from "../../src/schemas/registry.ts";
import { runHere, runHereJson } from "../cli/support/in-process.ts";
import { configText, createCustomers, makeSetting } from "../cli/support/setting.ts";
import { load } from "../config/support.ts";
import * as fc from "../support/fast-check.ts";
import { enrichJob, resolveJob, validateJob } from "./support.ts";
import { configOf } from "./world.ts";

const jobs = [
  { ...enrichJob, after: ["resolve_customers", "validate_customers"] },
  { ...validateJob, enabled: false },
  resolveJob,
];
// Only the fields that the selection reads.
const config = { jobs } as unknown as Config;

const selected = (...names: readonly string[]) => selectJobs(config, names).map((job) => job.name);

test("jobs run in the order of their dependencies: the named ones, or all enabled ones", () => {
  expect(selected()).toEqual(["resolve_customers", "enrich_customers"]);
  expect(selected("enrich_customers")).toEqual(["enrich_customers"]);
  expect(selected("enrich_customers", "resolve_customers")).toEqual(selected());
});

test("every name that can't be run is reported at once, with a hint", () => {
  let thrown: unknown;
  try {
    selected("resolve_customers", "enrich_costumers", "validate_customers");
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeInstanceOf(FixConfigurationError);
  expect(thrown).toMatchObject({
    problems: [
      { path: "jobs.enrich_costumers", message: "does not exist", hint: "did you mean enrich_customers?" },
      {
        path: "jobs.validate_customers.enabled",
        message: "is false: the job is disabled",
        hint: "set it to true to run the job",
      },
    ],
  });
});

test("a job is found by its name, enabled or not", () => {
  expect(findJob(config, "validate_customers").enabled).toBe(false);
  expect(() => findJob(config, "costumers")).toThrow(expect.objectContaining({ code: "unknown_job" }));
});

test.each([
  ["sandbox", "sandbox:42"],
  ["https://api.example.com", "api.example.com:443"],
  ["http://127.0.0.1:8080/base/path", "127.0.0.1:8080"],
  ["https://API.example.com:8443", "api.example.com:8443"],
  ["https://sandbox", "https://sandbox:443"],
])("the service %s is identified as %s", (baseUrl, host) => {
  expect(serviceHostOf({ service: { baseUrl }, sandbox: { seed: 42 } } as unknown as Config)).toBe(host);
});

test("every table of results is kept fresh by some job, and jobs name only declared tables", () => {
  const declared = tables.filter(({ schema }) => schema === "data").map(({ name }) => name);
  const kept = new Set(jobTypes.flatMap(({ writes }) => writes));
  expect(jobTypes.filter(({ writes }) => writes.length === 0)).toEqual([]);
  expect([...kept].filter((name) => !tables.some((table) => table.name === name))).toEqual([]);
  // Tables of the runs themselves.
  const ofRuns = ["reject", "person_state", "tombstone", "sync_gap", "usage_reconciliation"];
  expect(declared.filter((name) => !kept.has(name) && !ofRuns.includes(name))).toEqual([]);
});

test("a shard is read, and written again alike", () => {
  for (const text of ["0/1", "1/2", "31/32", "999/1000"]) {
    const shard = readShard(text);
    expect(shard && shardText(shard)).toBe(text);
  }
  const wrong = ["", "1", "1/1", "2/2", "0/0", "-1/2", "1/-2", "0.5/2", "1/2/3", " 1/2", "a/b"];
  expect([...wrong, "0/9007199254740993"].filter((text) => readShard(text) !== null)).toEqual([]);
});

test("shards share a limit without a remainder, and as evenly as can be", () => {
  fc.assert(
    fc.property(fc.nat(1_000_000), fc.integer({ min: 1, max: 50 }), (limit, count) => {
      const shares = Array.from({ length: count }, (_, index) => shareOf(limit, { index, count }));
      expect(shares.reduce((sum, share) => sum + share, 0)).toBe(limit);
      expect(Math.max(...shares) - Math.min(...shares)).toBeLessThanOrEqual(1);
    }),
  );
});

test("shards share calls in flight, calls per second, and records above which the user is asked", async () => {
  const text = configOf(
    "\n  enrich_customers: { type: enrich, input: customers }",
    "confirm_above: { records: 10000, ratio: 0.2 }",
  ).replace(
    "concurrency: 4",
    "concurrency: 6\n  requests_per_second: 10\n  limits: { /v2/enrich: { requests_per_second: 2 } }",
  );
  const env = { SERVICE_URL: "https://service.example", SERVICE_KEY: "k", WAREHOUSE_URL: "postgresql://h/d" };
  const whole = await load(text, { env });
  const shares = [0, 1, 2, 3].map((index) => shareLimits(whole, { index, count: 4 }));
  expect(shares.map(({ service }) => [service.concurrency, service.requestsPerSecond])).toEqual([
    [2, 2.5],
    [2, 2.5],
    [1, 2.5],
    [1, 2.5],
  ]);
  expect(shares[3]).toMatchObject({
    service: { limits: { "/v2/enrich": { requestsPerSecond: 0.5 } } },
    confirmAbove: { records: 2500, ratio: 0.2 },
  });
  expect(shareLimits(whole, { index: 7, count: 8 }).service.concurrency).toBe(1);
  expect(shareLimits(whole, wholeInput)).toEqual(whole);
});

test("`run --shard` asks above its share of confirm_above, as a plan of the shard says", async () => {
  const text = `${configText({ jobs: "jobs:\n  enrich_customers: { type: enrich, input: customers }" })}
confirm_above: { records: 80, ratio: 0 }\n`;
  const setting = await makeSetting();
  await writeFile(join(setting.cwd, "config.yaml"), text);
  await createCustomers(setting.url, 120);
  const half = ["--shard", "0/2"];
  expect((await runHere(["run", ...half], setting)).code).toBe(0);
  await setting.query("UPDATE crm.customers SET city = 'Elsewhere'");
  const { document: planned } = await runHereJson(["plan", ...half], setting);
  expect(planned).toMatchObject({ jobs: [{ needs_confirmation: true }] });
  const { code, document } = await runHereJson(["run", ...half], setting);
  expect([code, document]).toMatchObject([3, { jobs: [{ limited_by: "confirmation", records_sent: 0 }] }]);
});
