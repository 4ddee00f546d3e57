import { describe, expect, it } from "vitest";
import { fine, load, problemsOf } from "./support.ts";

const AUDIENCES = `  audiences: { type: audience_search, searches: { nurses: { query: nurses in Ohio } } }\n`;
const nurses = (input: string) =>
  `${fine.replace("inputs:", `inputs:\n  nurses: ${input}`)}${AUDIENCES}  people: { type: enrich, input: nurses }\n`;

const members = (segment: string) =>
  `${fine}${AUDIENCES}  m: { type: segment_members, segments: [${segment}] }\n`;

describe("searches", () => {
  it("are never unlocked by default, and have the largest size", async () => {
    const { jobs } = await load(
      `${fine}${AUDIENCES}  prospects: { type: person_search, searches: { cfos: { query: CFOs } } }\n`,
    );
    expect(jobs.find(({ name }) => name === "audiences")).toMatchObject({
      searches: { nurses: { query: "nurses in Ohio", unlock: null } },
      refreshAfterMs: null,
      deadlineMs: 900_000,
    });
    expect(jobs.find(({ name }) => name === "prospects")).toMatchObject({
      searches: { cfos: { query: "CFOs", size: 100 } },
    });
  });

  it.each([
    ["{ Nurses: { query: nurses } }", "15 jobs.s.searches.Nurses: is not a valid name"],
    ["{ a: { query: nurses }, b: { query: nurses } }", "15 jobs.s.searches.b: is the same search as a"],
    ['{ a: { query: "" } }', "15 jobs.s.searches.a.query: must be a description of an audience"],
    [
      `{ a: { query: ${"x".repeat(501)} } }`,
      "15 jobs.s.searches.a.query: must be a description of an audience",
    ],
    ["{ a: { query: nurses, unlock: always } }", "15 jobs.s.searches.a.unlock: must be `never`"],
    ["{ a: { query: nurses, unlock: {} } }", "15 jobs.s.searches.a.unlock.max_billable: is missing"],
  ])("%s are refused", async (searches, problem) => {
    const problems = await problemsOf(`${fine}  s: { type: audience_search, searches: ${searches} }\n`);
    expect(problems).toEqual([expect.stringContaining(problem)]);
  });
});

describe("an input of the members of an audience", () => {
  it("has the PID as key, and makes its jobs run after the search", async () => {
    const config = await load(nurses("{ job: audiences, search: nurses }"));
    expect(config.inputs["nurses"]).toMatchObject({
      key: ["service_pid"],
      fields: { service_pid: ["service_pid"] },
      source: { kind: "members", schema: "person_data", query: "nurses in Ohio" },
    });
    expect(config.jobs.find(({ name }) => name === "people")?.after).toEqual(["audiences"]);
  });

  it.each([
    ["{ job: audiences }", "inputs.nurses.search: is missing (the searches of audiences are nurses)"],
    ["{ search: nurses }", "inputs.nurses.job: is missing"],
    [
      "{ job: audiences, search: nurse }",
      "inputs.nurses.search: is not a configured search of the job (did you mean nurses?)",
    ],
    [
      "{ job: resolve_customers, search: nurses }",
      "inputs.nurses.job: must be a job of type audience_search",
    ],
    ["{ job: audiences, search: nurses, table: x }", "inputs.nurses.table: conflicts with job"],
    ["{ table: x, key: id }", "inputs.nurses.fields: is missing"],
    ["{ table: x, fields: { service_pid: pid } }", "inputs.nurses.key: is missing"],
  ])("%s is refused", async (input, problem) => {
    expect((await problemsOf(nurses(input))).join("\n")).toContain(problem);
  });

  it("is refused if there is no audience", async () => {
    const text = nurses("{ job: resolve_customers, search: nurses }").replace(AUDIENCES, "");
    expect((await problemsOf(text)).join("\n")).toContain(
      "inputs.nurses.job: must be a job of type audience_search, not resolve (there is no such job)",
    );
  });

  it("that its own search runs after is refused", async () => {
    const text = nurses("{ job: audiences, search: nurses }").replace(
      "{ type: audience_search",
      "{ type: audience_search, after: people",
    );
    expect((await problemsOf(text)).join("\n")).toContain("depends on itself");
  });
});

describe("a segment of an audience", () => {
  it("makes its job run after the search", async () => {
    const { jobs } = await load(members("{ job: audiences, search: nurses }"));
    expect(jobs.find(({ name }) => name === "m")).toMatchObject({
      after: ["audiences"],
      segments: [{ kind: "search", job: "audiences", search: "nurses", name: null }],
    });
  });

  it.each([
    ["{ job: audiences }", "jobs.m.segments[0].search: is missing (the searches of audiences are nurses)"],
    ["{ job: audiences, search: x }", "jobs.m.segments[0].search: is not a configured search of the job"],
    [
      "{ job: resolve_customers }",
      "jobs.m.segments[0].job: must be a job of type segment_push or audience_search",
    ],
  ])("%s is refused", async (segment, problem) => {
    expect((await problemsOf(members(segment))).join("\n")).toContain(problem);
  });
});
