import { describe, expect, test } from "vitest";
import { gist, matchAll, type Responder, runNight } from "./nights.ts";
import { addPeople, enrichSpec, makePeople, resolveSpec, validateSpec } from "./people.ts";
import { columnOf, type GetContext, type Context } from "./context.ts";
import type { RejectFilter } from "../../../src/load/runs/rejects.ts";

const all: RejectFilter = { jobs: [], codes: [], rows: [] };

const poison: Responder = () => ({ code: "string_type" });

const open = (context: Context) =>
  columnOf(
    context,
    "SELECT code FROM person_data.reject WHERE resolved_at IS NULL ORDER BY code, source_key",
  );

/** Three rejects of two jobs: refused by the service, without a value, without a key. */
async function makeRejects(context: Context): Promise<void> {
  await makePeople(context, [
    { id: "1", email: "ann@example.com" },
    { id: "2" },
    { id: null, email: "cid@example.com" },
  ]);
  await runNight(context, enrichSpec(), poison);
  await runNight(context, resolveSpec(), matchAll);
}

/** Tests of listing and retrying rejects. */
export function describeRejects(getContext: GetContext): void {
  describe("rejects", () => {
    test("are counted by job and cause, and listed newest first, by any filter", async () => {
      const context = getContext();
      const { warehouse } = context;
      await makeRejects(context);
      const at = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);
      const times = { firstAt: at, lastAt: at };
      expect(await warehouse.countRejects(all, { all: false })).toEqual([
        { job: "enrich_people", stage: "input", code: "missing_key", rejects: 1, ...times },
        { job: "enrich_people", stage: "input", code: "no_identifier", rejects: 1, ...times },
        { job: "enrich_people", stage: "send", code: "string_type", rejects: 1, ...times },
        { job: "resolve_people", stage: "input", code: "missing_key", rejects: 1, ...times },
        { job: "resolve_people", stage: "input", code: "no_identifier", rejects: 1, ...times },
        { job: "resolve_people", stage: "input", code: "not_resolvable", rejects: 1, ...times },
      ]);
      const filter = { jobs: ["enrich_people"], codes: ["string_type", "no_identifier"], rows: [] };
      const two = await warehouse.listRejects(filter, { all: false, limit: 10 });
      expect(two.map(({ sourceKey, code }) => [sourceKey, code])).toEqual([
        ["1", "string_type"],
        ["2", "no_identifier"],
      ]);
      expect(two[0]).toMatchObject({
        job: "enrich_people",
        source: "people",
        details: null,
        resolvedAt: null,
      });
      expect(await warehouse.listRejects(all, { all: false, limit: 2 })).toHaveLength(2);
      const rows = [{ source: "people", sourceKey: "2" }];
      expect(await warehouse.countRejects({ ...all, rows }, { all: false })).toMatchObject([
        { job: "enrich_people" },
        { job: "resolve_people" },
      ]);
    });

    test("that are retried make their rows due, whose rejects are resolved when they are answered", async () => {
      const context = getContext();
      await makeRejects(context);
      const filter = { ...all, jobs: ["enrich_people"], codes: ["string_type"] };
      expect(await context.warehouse.retryRejects(filter)).toEqual({ rejects: 1, due: 1, resolved: 0 });
      expect(await open(context)).toContain("string_type");
      const night = await runNight(context, enrichSpec(), matchAll);
      expect(gist(night.counts)).toEqual({
        read: 3,
        unchanged: 1,
        due: 1,
        dueReasons: { retried: 1 },
        rejectedBeforeSending: 1,
        toSend: 1,
      });
      expect(night.sent).toEqual({ 1: { emails: ["ann@example.com"] } });
      expect(await open(context)).not.toContain("string_type");
      expect(gist((await runNight(context, enrichSpec())).counts)).toMatchObject({ unchanged: 2 });
    });

    test("that fail again after a retry are rejected again, once", async () => {
      const context = getContext();
      await makeRejects(context);
      const filter = { ...all, jobs: ["enrich_people"] };
      expect(await context.warehouse.retryRejects(filter)).toEqual({ rejects: 3, due: 2, resolved: 1 });
      const { counts } = await runNight(context, enrichSpec(), poison);
      expect(gist(counts)).toMatchObject({ due: 1, rejectedBeforeSending: 2, toSend: 1 });
      expect((await open(context)).filter((code) => code !== "not_resolvable")).toEqual([
        "missing_key",
        "missing_key",
        "no_identifier",
        "no_identifier",
        "string_type",
      ]);
      expect(gist((await runNight(context, enrichSpec(), poison)).counts)).toEqual({
        read: 3,
        unchanged: 2,
        rejectedBeforeSending: 1,
      });
    });

    test("of an address that was refused are retried too", async () => {
      const context = getContext();
      await makePeople(context, [{ id: "1", email: "ann@example.com" }]);
      await runNight(context, validateSpec(), poison);
      const rows = [{ source: "people", sourceKey: "ann@example.com" }];
      expect(await context.warehouse.retryRejects({ ...all, rows })).toEqual({
        rejects: 1,
        due: 1,
        resolved: 0,
      });
      const { counts } = await runNight(context, validateSpec(), matchAll);
      expect(gist(counts)).toMatchObject({ due: 1, toSend: 1 });
      expect(await open(context)).toEqual([]);
    });

    test("of jobs that keep no state of rows are resolved by a retry, so that the job tries again", async () => {
      const context = getContext();
      await context.sql(`INSERT INTO person_data.reject (reject_id, run_id, job, source, source_key, stage, code, message,
          created_at, _synced_at) VALUES ('7f2c1d0e-0000-4000-8000-000000000001', 'earlier', 'push', 'VIP', 'p-unknown', 'send',
          'unknown_pid', 'The service does not know the PID.', '2026-11-01T00:00:00Z', '2026-11-01T00:00:00Z')`);
      const rows = [{ source: "VIP", sourceKey: "p-unknown" }];
      expect(await context.warehouse.retryRejects({ ...all, rows })).toEqual({
        rejects: 1,
        due: 0,
        resolved: 1,
      });
      expect(await open(context)).toEqual([]);
    });

    test("that are dropped are resolved, and their rows stay unsent until they change", async () => {
      const context = getContext();
      await makeRejects(context);
      expect(await context.warehouse.dropRejects({ ...all, codes: ["string_type"] })).toBe(1);
      expect(await context.warehouse.dropRejects({ ...all, codes: ["string_type"] })).toBe(0);
      expect(
        await context.warehouse.countRejects({ ...all, codes: ["string_type"] }, { all: true }),
      ).toHaveLength(1);
      await addPeople(context, []);
      expect(gist((await runNight(context, enrichSpec(), poison)).counts)).toMatchObject({ unchanged: 2 });
      await context.sql("UPDATE crm.people SET email = 'another@example.com' WHERE id = '1'");
      expect(gist((await runNight(context, enrichSpec(), matchAll)).counts)).toMatchObject({
        dueReasons: { content_changed: 1 },
      });
    });
  });
}
