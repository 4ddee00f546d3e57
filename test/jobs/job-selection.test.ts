import { expect, test } from "vitest";
import { FixConfigurationError } from "../../src/errors.ts";
import { findJob, selectJobs } from "../../src/jobs/job-selection.ts";
import type { Config } from "../../src/config/config.ts";
import { serviceHostOf } from "../../src/jobs/prepare.ts";
import { enrichJob, resolveJob, validateJob } from "./support.ts";

const jobs = [
  { ...enrichJob, after: ["resolve_customers", "validate_customers"] },
  { ...validateJob, enabled: false },
  resolveJob,
];
// Only the fields that the selection reads.
const config = { jobs } as unknown as Config;

function problemsOf(names: readonly string[]): readonly string[] {
  try {
    selectJobs(config, names);
    return [];
  } catch (error) {
    if (!(error instanceof FixConfigurationError)) throw error;
    return error.problems.map(
      ({ path, message, hint }) => `${path} ${message}${hint === undefined ? "" : ` ${hint}`}`,
    );
  }
}

test("without names every enabled job runs, each after those it depends on", () => {
  expect(selectJobs(config, []).map((job) => job.name)).toEqual(["resolve_customers", "enrich_customers"]);
});

test("named jobs run alone, in the order of their dependencies", () => {
  expect(selectJobs(config, ["enrich_customers"]).map((job) => job.name)).toEqual(["enrich_customers"]);
  expect(selectJobs(config, ["enrich_customers", "resolve_customers"]).map((job) => job.name)).toEqual([
    "resolve_customers",
    "enrich_customers",
  ]);
});

test("every name that can't be run is reported at once, with a hint", () => {
  expect(problemsOf(["resolve_customers", "enrich_costumers", "validate_customers"])).toEqual([
    "jobs.enrich_costumers does not exist did you mean enrich_customers?",
    "jobs.validate_customers.enabled is false: the job is disabled set it to true to run the job",
  ]);
});

test("a job is found by its name, enabled or not", () => {
  expect(findJob(config, "validate_customers").enabled).toBe(false);
  expect(() => findJob(config, "costumers")).toThrow(
    expect.objectContaining({
      code: "unknown_job",
      problems: [expect.objectContaining({ path: "jobs.costumers", message: "does not exist" })],
    }),
  );
});

function hostOf(baseUrl: string): string {
  return serviceHostOf({ service: { baseUrl }, sandbox: { seed: 42 } } as unknown as Config);
}

test("the service is identified by host and port, the sandbox by its population", () => {
  expect(hostOf("sandbox")).toBe("sandbox:42");
  expect(hostOf("https://api.example.com")).toBe("api.example.com:443");
  expect(hostOf("http://127.0.0.1:8080/base/path")).toBe("127.0.0.1:8080");
  expect(hostOf("https://API.example.com:8443")).toBe("api.example.com:8443");
});
