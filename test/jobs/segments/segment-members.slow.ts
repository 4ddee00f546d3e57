import { expect, test } from "vitest";
import {
  expectExact,
  expectSoundHistory,
  pidsOf,
  SEGMENT,
  startMembers,
  syncs,
  truthOf,
} from "./members-world.ts";
import { seededRandom } from "../../support/seeded-random.ts";
import { erase, jobOf, type World } from "../world.ts";

/** More than the 50 pages that every run reads, of 10 members each; the last page is not full. */
const MEMBERS = 515;
const PAGES = 52;

const startLarge = () => startMembers(MEMBERS, 7, { membersPerPage: 10 });

/** Requests and results of one run. */
async function syncOnce(world: World) {
  const { status, requests, rows_written } = jobOf(await world.run(), "vip_members");
  const [sync] = await world.rows(`SELECT current_size AS size, known_members AS known, added, removed
    FROM person_data_ops.segment_sync WHERE known_members IS NOT NULL ORDER BY _synced_at DESC LIMIT 1`);
  return { status, requests, rows_written, ...sync };
}

const change = (world: World, members: { add?: readonly string[]; remove?: readonly string[] }) =>
  world.control("/members", { segment_id: SEGMENT, ...members });

const marks = (world: World) =>
  world.rows("SELECT current_size, last_checked_at, last_complete_sync_at FROM person_data.segment");

const cursor = (world: World) =>
  world.value("SELECT cursor FROM person_data_ops.checkpoint WHERE job = 'vip_members'");

test("a large segment of the known size takes one request and moves only last_checked_at", async () => {
  const world = await startLarge();
  expect(await syncOnce(world)).toMatchObject({ status: "succeeded", requests: PAGES });
  const [before] = await marks(world);
  const cursorBefore = await cursor(world);
  expect(await syncOnce(world)).toMatchObject({ requests: 1, rows_written: 0, size: "515", known: "515" });
  const [after] = await marks(world);
  expect({ ...after, last_checked_at: null }).toEqual({ ...before, last_checked_at: null });
  expect(after?.["last_checked_at"]).not.toBe(before?.["last_checked_at"]);
  expect(await cursor(world)).toBe(cursorBefore);
});

test("new members on up to three pages take as many requests, more or a removal a full reading", async () => {
  const world = await startLarge();
  await world.run();
  let next = MEMBERS;
  const addSome = (count: number) => {
    next += count;
    return change(world, { add: pidsOf(next - count, next) });
  };
  await addSome(5);
  expect(await syncOnce(world)).toMatchObject({ requests: 1, rows_written: 10, added: "5" });
  await addSome(30);
  expect(await syncOnce(world)).toMatchObject({ requests: 3, rows_written: 60, added: "30" });
  await expectExact(world);
  await addSome(31);
  // Three pages of the quiet check, then all but the first.
  expect(await syncOnce(world)).toMatchObject({ requests: 61, rows_written: 62, added: "31" });
  await expectExact(world);
  const gone = (await truthOf(world))[260]?.service_pid ?? "";
  await change(world, { remove: [gone], add: pidsOf(next, next + 2) });
  expect(await syncOnce(world)).toMatchObject({ requests: 61, rows_written: 6, added: "2", removed: "1" });
  await expectExact(world);
});

test("erased people still in the segment count as known", async () => {
  const world = await startLarge();
  await world.run();
  await erase(world, { pids: pidsOf(100, 103) });
  expect(await syncOnce(world)).toMatchObject({
    requests: PAGES,
    rows_written: 0,
    size: "515",
    known: "512",
  });
  expect(await syncOnce(world)).toMatchObject({ requests: 1, rows_written: 0, size: "515", known: "512" });
  await change(world, { add: pidsOf(MEMBERS, MEMBERS + 1) });
  expect(await syncOnce(world)).toMatchObject({ requests: 1, added: "1", size: "516", known: "513" });
});

test("a member who left and one who returned are found after a week", async () => {
  const world = await startLarge();
  await world.run();
  const [early = "", later = ""] = pidsOf(43, 45);
  await change(world, { remove: [early] });
  // Their batch is on two pages, which are read once more.
  expect(await syncOnce(world)).toMatchObject({ requests: PAGES + 2, removed: "1" });
  await change(world, { remove: [later], add: [early] });
  await world.control("/clock", { days: 6.9 });
  expect(await syncOnce(world)).toMatchObject({ requests: 1, rows_written: 0 });
  await world.control("/clock", { days: 0.2 });
  expect(await syncOnce(world)).toMatchObject({ requests: PAGES + 2, added: "1", removed: "1" });
  await expectExact(world);
  expect(await syncOnce(world)).toMatchObject({ requests: 1 });
});

test("a last reading in the future doesn't delay the next one", async () => {
  const world = await startLarge();
  await world.control("/clock", { days: 30 });
  await world.run();
  await world.control("/clock", { days: -30 });
  expect(await syncOnce(world)).toMatchObject({ requests: PAGES, rows_written: 0 });
  expect(await syncOnce(world)).toMatchObject({ requests: 1 });
});

test("with changes between any two pages no member is lost permanently, and a quiet night is exact", async () => {
  const world = await startMembers(11_000, 3000);
  await world.run();
  const [people, random] = [pidsOf(0, 20_000), seededRandom(5)];
  const gone: string[] = [];
  const after = Array.from({ length: 30 }, (_, i) => {
    const known = 11_000 + 300 * i;
    const back = gone.splice(0, 40);
    const remove = Array.from({ length: 200 }, () => people[random.below(known)] ?? "");
    gone.push(...remove);
    return { page: i + 1, add: [...back, ...people.slice(known, known + 300)], remove };
  });
  await world.control("/page_hooks", { segment_id: SEGMENT, after });
  for (let night = 0; night < 3; night++) {
    expect(jobOf(await world.run(), "vip_members").status).toBe("succeeded");
  }
  await world.control("/page_hooks", { segment_id: SEGMENT });
  expect(jobOf(await world.run(), "vip_members").status).toBe("succeeded");
  await expectExact(world);
  await expectSoundHistory(world);
  expect((await world.rows(syncs)).at(-1)?.["removals_pending"]).toBe("0");
});
