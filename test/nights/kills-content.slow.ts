import { rename } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { testNights } from "./cases.ts";
import { names, openWorld, put, summaryOf } from "./night.ts";

const rows = "SELECT job, source_key, service_pid FROM enrichment WHERE is_present";

testNights("answers on disk after a kill", {
  "are counted by the run that loads them": [
    { edit: names("Ann", "Bob", "Nobody"), kill: "after_spool_fsync", sent: ["Ann", "Bob", "Nobody"] },
    { tables: { "SELECT records_matched FROM sync_run WHERE status = 'succeeded'": ["2"] } },
  ],
  "of a job that was renamed meanwhile are loaded for the new one": [
    {
      config: { jobs: "{ before: { type: enrich, input: customers } }" },
      edit: names("Ann"),
      kill: "after_spool_fsync",
      sent: ["Ann"],
    },
    {
      config: { jobs: "{ after: { type: enrich, input: customers } }" },
      tables: { [rows]: ["after|1|p-ann"] },
    },
  ],
  "of another job are loaded before anything is sent again": [
    {
      config: { jobs: "{ first: { type: enrich, input: customers } }" },
      edit: names("Ann"),
      kill: "after_spool_fsync",
      sent: ["Ann"],
    },
    {
      config: {
        jobs: "{ first: { type: enrich, input: customers }, second: { type: enrich, input: customers } }",
      },
      flags: { jobs: ["second"] },
      tables: { [rows]: ["first|1|p-ann", "second|1|p-ann"] },
    },
    { ends: { first: "1 read, 1 unchanged", second: "1 read, 1 unchanged" } },
  ],
  "serve a row that changed meanwhile and changes back": [
    { edit: names("Ann"), kill: "after_spool_fsync", sent: ["Ann"] },
    { edit: names("Eve"), sent: ["Eve"] },
    { edit: names("Ann"), tables: { [rows]: ["enrich|1|p-ann"] } },
  ],
  "of a row that is erased meanwhile are stored for an equal row": [
    { edit: put(1, "Ann") + put(2, "Ann"), kill: "after_spool_fsync", sent: ["Ann"] },
    {
      commands: [["erase", "--source-key", "customers/1", "--yes"]],
      exitCodes: [3],
      tables: { "SELECT service_pid FROM person": ["p-ann"], [rows]: ["enrich|2|p-ann"] },
    },
  ],
  "store nobody whose row is erased meanwhile": [
    { edit: names("Ann", "Bob"), kill: "after_spool_fsync", sent: ["Ann", "Bob"] },
    {
      commands: [["erase", "--source-key", "customers/2", "--yes"]],
      exitCodes: [3],
      ends: "2 read, 1 unchanged, 1 suppressed, 1 matched",
      tables: { "SELECT service_pid FROM person": ["p-ann"], [rows]: ["enrich|1|p-ann"] },
    },
  ],
});

describe("answers on disk after a kill", () => {
  test("that come back from another machine don't end a resend that began after their call", async () => {
    const world = await openWorld();
    const spool = join(world.folder, "answers", "spool");
    const elsewhere = join(world.folder, "elsewhere");
    await world.night({ edit: names("Ann"), kill: "after_spool_fsync" });
    await rename(spool, elsewhere);
    expect((await world.night()).sent).toEqual({ enrich: ["Ann"] });
    await world.night({ flags: { resend: true, maxRecords: 0 } });
    await rename(spool, join(world.folder, "empty"));
    await rename(elsewhere, spool);
    const { sent, report } = await world.night();
    // The answer of the first night is counted, too.
    expect([sent, report?.jobs.map(summaryOf)]).toEqual([{ enrich: ["Ann"] }, ["1 read, 1 sent, 2 matched"]]);
    expect((await world.night()).report?.jobs.map(summaryOf)).toEqual(["1 read, 1 unchanged"]);
  });
});
