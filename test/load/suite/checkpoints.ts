import { describe, expect, test } from "vitest";
import { systemClock } from "../../../src/clock.ts";
import type { Config, JobConfig } from "../../../src/config/config.ts";
import {
  givenCheckpoint,
  moveCheckpoints,
  readCheckpointReport,
} from "../../../src/jobs/report/checkpoints.ts";
import { silentLog } from "../../../src/log.ts";
import type { GetContext, Context } from "./context.ts";

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
  });
}
