import { expect, test } from "vitest";
import { expectExact, expectSoundHistory, SEGMENT, startMembers, syncs } from "./members-world.ts";
import { jobOf } from "../world.ts";

test("with changes between any two pages no member is lost permanently, and a quiet night is exact", async () => {
  const world = await startMembers(11_000, 3000);
  await world.run();
  const churn = { seed: 5, adds: 300, readds: 40, removes: 200 };
  await world.control("/page_hooks", { segment_id: SEGMENT, churn });
  for (let night = 0; night < 3; night++) {
    expect(jobOf(await world.run(), "vip_members").status).toBe("succeeded");
  }
  await world.control("/page_hooks", { segment_id: SEGMENT, churn: null });
  expect(jobOf(await world.run(), "vip_members").status).toBe("succeeded");
  await expectExact(world);
  await expectSoundHistory(world);
  expect((await world.rows(syncs)).at(-1)?.["removals_pending"]).toBe("0");
});
