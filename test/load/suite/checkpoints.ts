import { describe, expect, test } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import type { Config, JobConfig } from "../../../src/config/config.ts";
import {
  givenCheckpoint,
  moveCheckpoints,
  readCheckpointReport,
} from "../../../src/jobs/report/checkpoints.ts";
import { silentLog } from "../../../src/log.ts";
import { enrichSpec, makePeople, people } from "./people.ts";
import { gist, matchAll, runNight } from "./nights.ts";
import { columnOf, type GetContext, type Context } from "./context.ts";

const base = { type: "search_usage", enabled: true, after: [], schedule: null, timezone: "UTC" } as const;
/** Job that no run holds. */
const free: JobConfig = { ...base, name: "moved_by_hand" };
/** Job that the suite runs. */
const busy: JobConfig = { ...base, name: "one" };

function servicesOf({ warehouse }: Context): Parameters<typeof moveCheckpoints>[0] {
  return {
    // Only the settings that a lock and these jobs need.
    config: { jobs: [free, busy], lockLifeMs: 3_600_000 } as unknown as Config,
    db: warehouse.db,
    clock: systemClock,
    log: silentLog,
    signal: new AbortController().signal,
    progress: { start() {}, advance() {}, note() {}, end() {} },
  };
}

const cursor = { column: "updated_at", overlapMs: 3_600_000 };

/** Tests of reading and changing checkpoints. */
export function describeCheckpoints(getContext: GetContext): void {
  describe("checkpoints", () => {
    test("are moved and deleted by hand, while the job isn't running", async () => {
      const context = getContext();
      const services = servicesOf(context);
      const shown = async () => (await readCheckpointReport(context.warehouse.db, free)).checkpoints;
      expect(await shown()).toEqual([]);
      const next = { next: "2026-11-01" };
      const move = await givenCheckpoint(services, free, "history", next);
      await moveCheckpoints(services, free, "by hand", async () => [move]);
      expect(await shown()).toMatchObject([{ stream: "history", cursor: next, run_id: "by hand" }]);
      const bad = givenCheckpoint(services, free, "history", { next: "2026-11-31" });
      await expect(bad).rejects.toMatchObject({ code: "bad_checkpoint" });
      await moveCheckpoints(services, free, "by hand", async () => [{ stream: "history", cursor: null }]);
      expect(await shown()).toEqual([]);
      const refused = moveCheckpoints(services, busy, "by hand", async () => [move]);
      await expect(refused).rejects.toMatchObject({ code: "locked" });
      expect((await readCheckpointReport(context.warehouse.db, busy)).checkpoints).toEqual([]);
    });

    test("of an input with an invalid value count as none, and are fixed", async () => {
      const context = getContext();
      const spec = enrichSpec({ input: { ...people, cursor } });
      await makePeople(context, [{ id: "1", first_name: "Ann", updated_at: "2026-11-01T00:00:00Z" }]);
      await runNight(context, spec, matchAll);
      // A change before the cursor.
      await context.sql("UPDATE crm.people SET first_name = 'Anne', updated_at = '2026-01-01T00:00:00Z'");
      expect(gist((await runNight(context, spec)).counts)).toEqual({ read: 1, unchanged: 1 });
      const set = (key: string, value: string) =>
        context.sql(
          `UPDATE person_data_ops.checkpoint SET "cursor" = jsonb_set("cursor", '{${key}}', '${value}') WHERE true`,
        );
      await set("value", '"four"');
      expect(gist((await runNight(context, spec, matchAll)).counts).dueReasons).toEqual({
        content_changed: 1,
      });
      const values = `SELECT "cursor"->>'value' FROM person_data_ops.checkpoint`;
      expect(await columnOf(context, values)).toEqual(["2026-01-01 00:00:00+00"]);
      await context.sql("UPDATE crm.people SET first_name = 'Ann', updated_at = '2025-01-01T00:00:00Z'");
      await set("full_at", '"never"');
      expect(gist((await runNight(context, spec, matchAll)).counts).dueReasons).toEqual({
        content_changed: 1,
      });
    });

    test("accept a value of the cursor's column, of any type", async () => {
      const context = getContext();
      await context.sql(
        "CREATE TABLE crm.typed (id text, at timestamptz, local timestamp, day date, number bigint, note text)",
      );
      const table = { ...people, relation: { table: ["crm", "typed"] }, fields: {} };
      const isValue = (column: string, value: string) =>
        context.warehouse.isCursorValue({ ...table, cursor: { ...cursor, column } }, value);
      const judged: Record<string, readonly boolean[]> = {};
      for (const column of ["at", "local", "day", "number", "note"]) {
        judged[column] = [];
        for (const value of ["2026-11-01 00:00:00", "4711", "four", "0001-01-01 00:00:00"]) {
          judged[column] = [...(judged[column] ?? []), await isValue(column, value)];
        }
      }
      expect(judged).toEqual({
        at: [true, false, false, true],
        local: [true, false, false, true],
        day: [true, false, false, true],
        number: [false, true, false, false],
        note: [true, true, true, true],
      });
    });
  });
}
