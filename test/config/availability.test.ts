import { describe, expect, it } from "vitest";
import { laterJobTypes } from "../../src/config/schema/document.ts";
import { fine, fineBut, load, problemsOf, refusal } from "./support.ts";

const UUID = "123e4567-e89b-12d3-a456-426614174000";

/** A valid job of each type that doesn't exist yet. */
const laterJobs: Readonly<Record<string, string>> = {
  person_search: `{ type: person_search, searches: { cfo_texas: { query: CFOs in Texas, size: 100 } } }`,
  audience_search: `{ type: audience_search, searches: { nurses: { query: nurses in Ohio, unlock: { max_billable: 5000 } } } }`,
  contact_jobs: `{ type: contact_jobs, job_ids: { sql: select id from jobs }, unlock: { max_billable: 1000 } }`,
};

describe("features not available in this version", () => {
  it("is the job types of the interface that are not built yet", () => {
    expect(Object.keys(laterJobs)).toEqual(laterJobTypes);
  });

  it.each(Object.entries(laterJobs))("%s is refused with its own code", async (type, job) => {
    const { code, problems } = await refusal(`${fine}  later: ${job}\n`);
    expect(code).toBe("not_available_in_this_version");
    expect(problems).toEqual([
      {
        path: "jobs.later.type",
        line: 15,
        message: `is ${type}, which is not available in this version`,
        hint: "remove the job, or set enabled: false; available types: resolve, validate_emails, enrich, segment_members, segment_push, death_signals, search_usage, endpoint_usage",
      },
    ]);
  });

  it.each(Object.entries(laterJobs))("%s is accepted if disabled", async (_type, job) => {
    const config = await load(`${fine}  later: ${job.replace("{", "{ enabled: false,")}\n`);
    expect(config.jobs).toHaveLength(3);
  });

  it("a budget for unlocks, next to supported budgets", async () => {
    const section =
      "budgets: { enrich: { per_day: 200000, per_month: 2000000 }, unlock: { per_month: 10000 } }";
    const { code, problems } = await refusal(`${fine}${section}\n`);
    expect(code).toBe("not_available_in_this_version");
    expect(problems).toEqual([
      {
        path: "budgets.unlock",
        line: 15,
        message: "is not available in this version",
        hint: "remove the line",
      },
    ]);
  });

  it("is a warehouse in BigQuery, which is refused with the form of `publish`", async () => {
    const warehouse = "type: bigquery\n  project: my-project-1\n  location: EU\n  dataset: people";
    expect(await problemsOf(fineBut("type: postgres\n  url: embedded", warehouse))).toEqual([
      "4 warehouse.type: must be postgres: other engines get a published copy (use warehouse: { url: embedded } (or ${WAREHOUSE_URL}) with publish: { analytics: { type: bigquery, project: my-project, location: EU, dataset: person_data, ops_dataset: person_data_ops } })",
    ]);
  });

  it("is not BigQuery as the place of inputs", async () => {
    const { connections, inputs } = await load(
      fineBut("    key: id", "    connection: lake\n    key: id").replace(
        "jobs:",
        "connections:\n  lake: { type: bigquery, project: my-lake, dataset: crm, credentials: file:lake.json }\njobs:",
      ),
    );
    expect(connections["lake"]).toEqual({
      name: "lake",
      type: "bigquery",
      project: "my-lake",
      dataset: "crm",
      location: null,
      credentialsFile: expect.stringMatching(/[\\/]lake\.json$/),
      impersonate: null,
      apiEndpoint: null,
      maximumBytesBilled: null,
    });
    expect(inputs["customers"]?.connection).toBe(connections["lake"]);
  });

  it("is reported with all other problems", async () => {
    const jobs = `${fine}  push: { type: segment_push, sql: "select 1;", mode: replace, connection: crm }
  members: { type: segment_members, segments: [{ job: psh }, {}, { id: ${UUID}, job: push }] }
  audience: { type: audience_search, searches: 7 }
  usage: { type: endpoint_usage, bucketing_size: minute, start_date: 2026-02-30 }
alerts: { webhook: https://hooks.example.com/T0/hunter2 }
`;
    const problems = await problemsOf(jobs);
    expect(problems.filter((problem) => !problem.includes("not available"))).toEqual([
      "15 jobs.push.name: is missing (name the segment, or give its segment_id)",
      "15 jobs.push.connection: is not a configured connection (there is no connection)",
      "15 jobs.push.sql: ends with a semicolon (remove it)",
      "15 jobs.push.mode: must be one of append, mirror (docs/configuration.md describes this setting)",
      "16 jobs.members.segments[0].job: is not a configured segment_push job (did you mean push?)",
      "16 jobs.members.segments[1]: must have either an id or a job ({ id: <uuid> } or { job: NAME })",
      "16 jobs.members.segments[2]: must have either an id or a job ({ id: <uuid> } or { job: NAME })",
      "18 jobs.usage.bucketing_size: must be one of hour, day, week, month, quarter, year (docs/configuration.md describes this setting)",
      "18 jobs.usage.start_date: must be a day such as 2026-01-31 (docs/configuration.md describes this setting)",
      "19 alerts.webhook: must be a reference to a secret, not the secret itself (use ${NAME} for an environment variable, or file:PATH (relative to this file); revoke a key that was in this file)",
    ]);
    expect(problems.filter((problem) => problem.includes("not available"))).toHaveLength(1);
    expect((await refusal(jobs)).code).toBe("invalid_configuration");
  });
});
