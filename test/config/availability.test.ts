import { describe, expect, it } from "vitest";
import { fine, fineBut, load, problemsOf } from "./support.ts";

const UUID = "123e4567-e89b-12d3-a456-426614174000";

describe("warehouses and jobs", () => {
  it("refuse a warehouse in BigQuery with a hint at `publish`", async () => {
    const warehouse = "type: bigquery\n  project: my-project-1\n  location: EU\n  dataset: people";
    expect(await problemsOf(fineBut("type: postgres\n  url: embedded", warehouse))).toEqual([
      "4 warehouse.type: must be postgres: other engines get a published copy (use Postgres as the warehouse and add the other engine under publish: (docs/publishing.md))",
    ]);
  });

  it("take BigQuery as the place of inputs", async () => {
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

  it("report all problems of jobs", async () => {
    const jobs = `${fine}  push: { type: segment_push, sql: "select 1;", mode: replace, connection: crm }
  members: { type: segment_members, segments: [{ job: psh }, {}, { id: ${UUID}, job: push }] }
  audience: { type: audience_search, searches: 7 }
  usage: { type: endpoint_usage, bucketing_size: minute, start_date: 2026-02-30 }
alerts: { webhook: https://hooks.example.com/T0/hunter2 }
`;
    const problems = await problemsOf(jobs);
    expect(problems).toEqual([
      "15 jobs.push.name: is missing (name the segment, or give its segment_id)",
      "15 jobs.push.connection: is not a configured connection (there is no connection)",
      "15 jobs.push.sql: ends with a semicolon (remove it)",
      "15 jobs.push.mode: must be one of append, mirror (docs/configuration.md describes this setting)",
      "16 jobs.members.segments[0].job: is not a configured segment_push or audience_search job (did you mean push?)",
      "16 jobs.members.segments[1]: must have either an id or a job ({ id: <uuid> }, { job: NAME } or { job: NAME, search: NAME })",
      "16 jobs.members.segments[2]: must have either an id or a job ({ id: <uuid> }, { job: NAME } or { job: NAME, search: NAME })",
      "17 jobs.audience.searches: must be a mapping of keys to values (indent its keys below it)",
      "18 jobs.usage.bucketing_size: must be one of hour, day, week, month, quarter, year (docs/configuration.md describes this setting)",
      "18 jobs.usage.start_date: must be a day such as 2026-01-31 (docs/configuration.md describes this setting)",
      "19 alerts.webhook: must be a reference to a secret, not the secret itself (use ${NAME} for an environment variable, or file:PATH (relative to this file); revoke a key that was in this file)",
    ]);
  });
});
