import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { openWarehouse } from "../support/bound-load.ts";
import type { SeenMember } from "../../src/load/feeds/members.ts";
import { openDoor } from "../support/door.ts";
import { openPostgresContext, type PostgresContext } from "./postgres-context.ts";
import { DAY, feedCommit, member, SEGMENT } from "./suite/feed-commits.ts";
import { runOf } from "./suite/nights.ts";
import { clear, valueOf } from "./suite/context.ts";

let context: PostgresContext;
beforeAll(async () => {
  context = await openPostgresContext();
});
beforeEach(() => clear(context));
afterAll(() => context.close());

const page = (...members: readonly SeenMember[]) => ({ segmentId: SEGMENT, members, isListed: true });

test("a sweep each of whose COMMITs loses its reply counts as one without a loss", async () => {
  const door = await openDoor(context.url, { isOpen: true });
  const warehouse = openWarehouse({
    url: door.url,
  });
  onTestFinished(() => warehouse.close());
  const run = runOf({ job: "one", type: "enrich" });
  await warehouse.beginRun(run);
  door.cutAtCommit();
  const first = page(member("p1", 1), member("p2", 2), member("p3", 3));
  expect(await warehouse.addMembers(feedCommit(run), { ...first, isListed: false })).toEqual({
    rowsWritten: 6,
    added: 3,
    suppressed: 0,
  });
  door.cutAtCommit();
  const second = page(member("p1", 1), member("p3", 3), member("p4", 4));
  expect(await warehouse.addMembers(feedCommit(run), second)).toMatchObject({ rowsWritten: 2, added: 1 });
  door.cutAtCommit();
  const spans = [{ after: DAY(1), before: DAY(3), seenAt: DAY(6) }];
  expect(await warehouse.removeMembers(feedCommit(run), SEGMENT, spans)).toMatchObject({
    rowsWritten: 2,
    removed: 1,
    pending: 0,
  });
  expect(door.cuts()).toBe(3);
  expect(await valueOf(context, "SELECT rows_written FROM person_data_ops.sync_run")).toBe("10");
});
