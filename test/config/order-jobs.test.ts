import { describe, expect, it } from "vitest";
import type { Config } from "../../src/config/config.ts";
import { orderJobs } from "../../src/config/references.ts";
import { fine, load } from "./support.ts";
import * as fc from "../support/fast-check.ts";

const names = (jobs: Config["jobs"]) => orderJobs({ jobs }).map((job) => job.name);

describe("the order of jobs", () => {
  it("puts a job after those that it names or uses, and leaves out disabled ones", async () => {
    const { jobs } = await load(`${fine.slice(0, fine.indexOf("jobs:"))}jobs:
  e: { type: enrich, input: customers, pid_from: r, valid_emails_from: v }
  last: { type: enrich, input: customers, after: off }
  off: { type: enrich, input: customers, after: e, enabled: false }
  r: { type: resolve, input: customers, valid_emails_from: v }
  v: { type: validate_emails, input: customers }
  free: { type: validate_emails, input: customers }
`);
    expect(names(jobs)).toEqual(["v", "r", "e", "last", "free"]);
  });

  it("holds for any dependencies without a circle", async () => {
    const [template] = (await load(fine)).jobs;
    if (!template) throw new Error("no job");
    const graph = fc.array(fc.array(fc.nat(20), { maxLength: 4 }), { maxLength: 20 });
    const property = fc.property(graph, fc.infiniteStream(fc.nat()), (edges, order) => {
      // Job i waits only for lower-numbered jobs, so there is no cycle; then the file's order is shuffled.
      const jobs = edges
        .map((below, i) => ({
          ...template,
          name: `j${i}`,
          after: below.filter((j) => j < i).map((j) => `j${j}`),
        }))
        .map((job) => ({ job, rank: order.next().value ?? 0 }))
        .toSorted((a, b) => a.rank - b.rank)
        .map(({ job }) => job);
      const ordered = names(jobs);
      expect(ordered.toSorted()).toEqual(jobs.map((job) => job.name).toSorted());
      for (const { name, after } of jobs) {
        for (const before of after) expect(ordered.indexOf(before)).toBeLessThan(ordered.indexOf(name));
      }
    });
    fc.assert(property, { numRuns: 200 });
  });
});
