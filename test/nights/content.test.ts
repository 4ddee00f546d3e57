import { describe, expect, test } from "vitest";
import { testNights } from "./cases.ts";
import { type Night, names, openWorld } from "./night.ts";
import { contentOf, type ScriptedService } from "./scripted-service.ts";

const rows = "SELECT job, source, source_key, service_pid, is_present FROM enrichment";
const fields = "fields: { full_name: name, emails: [email] }";
const leads = (list: readonly string[]) =>
  `CREATE TABLE IF NOT EXISTS crm.leads (LIKE crm.customers); DELETE FROM crm.leads;
  ${list.map((name, i) => `INSERT INTO crm.leads (id, name) VALUES (${i + 1}, '${name}');`).join("")}`;
const twoInputs = {
  inputs: `{ customers: { table: crm.customers, key: id, ${fields} }, leads: { table: crm.leads, key: id, ${fields} } }`,
  jobs: "{ one: { type: enrich, input: customers }, two: { type: enrich, input: leads } }",
};
const twoJobs = {
  jobs: "{ one: { type: enrich, input: customers }, two: { type: enrich, input: customers } }",
};
const refreshing = { jobs: "{ enrich: { type: enrich, input: customers, refresh_after: 10d } }" };

testNights("a row that goes back to content answered earlier", {
  "sends nothing, and is linked as before": [
    { edit: names("Ann"), sent: ["Ann"] },
    { edit: names("Eve"), sent: ["Eve"] },
    {
      edit: names("Ann"),
      tables: {
        [rows]: ["enrich|customers|1|p-ann|t"],
        "SELECT service_pid, valid_to IS NULL FROM match_history": ["p-ann|f", "p-ann|t", "p-eve|f"],
      },
    },
    { edit: names("Eve"), tables: { [rows]: ["enrich|customers|1|p-eve|t"] } },
    { ends: "1 read, 1 unchanged" },
  ],
  "is sent where that answer has expired": [
    { config: refreshing, edit: names("Ann"), sent: ["Ann"] },
    { days: 6, edit: names("Eve"), sent: ["Eve"] },
    { edit: names("Ann") },
    { days: 6, sent: ["Ann"] },
  ],
});

testNights("equal content", {
  "of two jobs of the same parameters is paid once, and each job has its rows": [
    {
      config: twoJobs,
      edit: names("Ann", "Nobody"),
      sent: ["Ann", "Nobody"],
      ends: { one: "2 read, 2 sent, 1 matched", two: "2 read, 2 duplicate" },
      tables: {
        [rows]: [
          "one|customers|1|p-ann|t",
          "one|customers|2||f",
          "two|customers|1|p-ann|t",
          "two|customers|2||f",
        ],
      },
    },
    { ends: { one: "2 read, 2 unchanged", two: "2 read, 2 unchanged" } },
  ],
  "of a job that is added later sends nothing": [
    { config: { jobs: "{ one: { type: enrich, input: customers } }" }, edit: names("Ann"), sent: ["Ann"] },
    {
      config: twoJobs,
      tables: { [rows]: ["one|customers|1|p-ann|t", "two|customers|1|p-ann|t"] },
    },
  ],
  "of a job with other parameters is bought for itself": [
    { config: { jobs: "{ one: { type: enrich, input: customers } }" }, edit: names("Ann"), sent: ["Ann"] },
    {
      config: {
        jobs: "{ one: { type: enrich, input: customers }, two: { type: enrich, input: customers, return_fields: [phones] } }",
      },
      sent: ["Ann"],
    },
    { edit: names("Eve"), sent: ["Eve", "Eve"] },
    { edit: names("Ann") },
  ],
  "of a renamed job sends nothing, and asks nothing": [
    {
      config: { jobs: "{ before: { type: enrich, input: customers } }" },
      edit: names("Ann", "Nobody"),
      sent: ["Ann", "Nobody"],
    },
    {
      config: { jobs: "{ after: { type: enrich, input: customers } }" },
      flags: { yes: false },
      tables: {
        [`${rows} WHERE job = 'after'`]: ["after|customers|1|p-ann|t", "after|customers|2||f"],
        "SELECT job, source_key FROM identity_link": ["after|1"],
      },
    },
    { ends: "2 read, 2 unchanged" },
  ],
  "of a renamed input sends nothing": [
    { edit: names("Ann"), sent: ["Ann"] },
    {
      config: {
        inputs: `{ clients: { table: crm.customers, key: id,
              fields: { full_name: name, emails: [email, work_email], phones: [phone], city: city } } }`,
        jobs: "{ enrich: { type: enrich, input: clients } }",
      },
      flags: { yes: false },
      tables: { [`${rows} WHERE source = 'clients'`]: ["enrich|clients|1|p-ann|t"] },
    },
  ],
  "of two inputs is paid once in a run": [
    {
      config: twoInputs,
      edit: names("Ann", "Bob") + leads(["Bob", "Cid"]),
      sent: ["Ann", "Bob", "Cid"],
      ends: { one: "2 read, 2 sent, 2 matched", two: "2 read, 1 duplicate, 1 sent, 1 matched" },
      tables: {
        [rows]: [
          "one|customers|1|p-ann|t",
          "one|customers|2|p-bob|t",
          "two|leads|1|p-bob|t",
          "two|leads|2|p-cid|t",
        ],
      },
    },
  ],
  "of a row that left its input is paid for, whichever input has it next": [
    { config: twoInputs, edit: names("Ann") + leads([]), sent: ["Ann"] },
    {
      edit: "INSERT INTO crm.leads SELECT * FROM crm.customers; DELETE FROM crm.customers",
      tables: { [rows]: ["one|customers|1|p-ann|f", "two|leads|1|p-ann|t"] },
    },
  ],
  "that expires is sent once for all jobs, and every row moves": [
    {
      config: {
        jobs: "{ one: { type: enrich, input: customers, refresh_after: 10d }, two: { type: enrich, input: customers, refresh_after: 10d } }",
      },
      edit: names("Ann"),
      sent: ["Ann"],
    },
    {
      days: 10,
      sent: ["Ann"],
      tables: {
        "SELECT job, request_completed_at > now() - interval '1 day' FROM enrichment": ["one|t", "two|t"],
      },
    },
  ],
});

describe("equal content", () => {
  test("of two runs at once is paid once", async () => {
    const world = await openWorld(twoInputs);
    const beside: Promise<Night>[] = [];
    await world.night({
      edit: names("Ann", "Bob") + leads(["Ann", "Bob", "Cid"]),
      flags: { jobs: ["one"] },
      service: {
        // The first run's call waits for the end of the second run, which has no call of its own for the claimed content.
        during: async ({ records }) => {
          if (beside.length > 0 || !records.map(contentOf).includes("Ann")) return;
          beside.push(world.runBeside({ jobs: ["two"] }));
          await Promise.all(beside);
        },
      },
    });
    expect(beside).toHaveLength(1);
    expect(world.service.received()).toEqual({ enrich: ["Ann", "Bob", "Cid"] });
    const last = await world.night();
    expect([last.sent, last.report?.status]).toEqual([{}, "succeeded"]);
    expect(await world.lines("SELECT job, service_pid FROM enrichment WHERE is_present")).toEqual([
      "one|p-ann",
      "one|p-bob",
      "two|p-ann",
      "two|p-bob",
      "two|p-cid",
    ]);
  });
});

/** IDs by content. */
function idsIn({ calls }: ScriptedService): ReadonlyMap<string, ReadonlySet<unknown>> {
  const ids = new Map<string, Set<unknown>>();
  for (const record of calls.flatMap(({ records }) => records)) {
    const content = contentOf(record);
    const known = ids.get(content) ?? new Set();
    ids.set(content, known.add(typeof record === "string" ? null : record["record_id"]));
  }
  return ids;
}

describe("the record_id of a request", () => {
  test("is made from the content: the same in every run, another one for every content", async () => {
    const world = await openWorld();
    await world.night({ edit: names("Ann", "Bob") });
    const before = idsIn(world.service);
    await world.night({ edit: names("Cid", "Ann", "Bob", "Dan"), flags: { resend: true } });
    const after = idsIn(world.service);
    expect(after.get("Ann")).toEqual(before.get("Ann"));
    expect(after.get("Bob")).toEqual(before.get("Bob"));
    const all = [...after.values()].flatMap((ids) => [...ids]);
    expect(new Set(all).size).toBe(4);
  });
});

testNights("what is no longer configured", {
  "has no present rows after the next run (a job), and has them again when it is back": [
    { config: twoJobs, edit: names("Ann"), sent: "any" },
    {
      config: { jobs: "{ one: { type: enrich, input: customers } }" },
      tables: { [rows]: ["one|customers|1|p-ann|t", "two|customers|1|p-ann|f"] },
    },
    { config: twoJobs, tables: { [rows]: ["one|customers|1|p-ann|t", "two|customers|1|p-ann|t"] } },
  ],
  "has no present rows after the next run (an input)": [
    { config: twoInputs, edit: names("Ann") + leads(["Bob"]), sent: ["Ann", "Bob"] },
    {
      config: {
        inputs: `{ customers: { table: crm.customers, key: id, ${fields} } }`,
        jobs: "{ one: { type: enrich, input: customers } }",
      },
      tables: {
        [rows]: ["one|customers|1|p-ann|t", "two|leads|1|p-bob|f"],
        "SELECT source, source_key FROM identity_link": ["customers|1"],
      },
    },
  ],
});
