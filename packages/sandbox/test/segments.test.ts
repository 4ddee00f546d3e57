import { describe, expect, it } from "vitest";
import type { Sandbox } from "../src/start-sandbox.ts";
import { call, control, people, sandboxFor, today } from "./support.ts";

const pidsOf = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) => people.pidOf(from + i, today));
const NOBODY = "00000000-0000-4000-8000-00000000dead";

interface Page {
  readonly items: readonly { readonly service_pid: string; readonly first_added_at: string }[];
  readonly total_count: number;
  readonly page: number;
  readonly list_continues: boolean;
}

async function create(sandbox: Sandbox, name = "VIP"): Promise<string> {
  return String((await call(sandbox, "/v2/segments/create", { name })).body["segment_id"]);
}

async function pageOf(sandbox: Sandbox, segmentId: string, page = 1): Promise<Page> {
  const { body } = await call(sandbox, `/v2/segments/members?segment_id=${segmentId}&page=${page}`);
  return JSON.parse(JSON.stringify(body.results));
}

const changeBy =
  (change: "add" | "remove") => async (sandbox: Sandbox, segmentId: string, pids: readonly string[]) =>
    (await call(sandbox, `/v2/segments/members/${change}`, { segment_id: segmentId, service_pids: pids }))
      .body.results;
const add = changeBy("add");
const remove = changeBy("remove");

describe("creating a segment", () => {
  it("answers its id, once per name and organization", async () => {
    const sandbox = await sandboxFor();
    const first = await call(sandbox, "/v2/segments/create", { name: "VIP", description: "The best." });
    expect([first.status, Object.keys(first.body)]).toEqual([
      200,
      ["api_request_id", "request_completed_at", "segment_id"],
    ]);
    expect(first.body["segment_id"]).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  });
});

describe("changing members", () => {
  it("counts what was added, what was there, and who doesn't exist", async () => {
    const sandbox = await sandboxFor();
    const segment = await create(sandbox);
    expect(await add(sandbox, segment, [...pidsOf(0, 3), "p-nobody", "p-nobody"])).toEqual({
      invalid_service_pids: ["p-nobody"],
      n_redundant_additions: 0,
      n_added: 3,
      new_current_size: 3,
    });
    expect(await add(sandbox, segment, pidsOf(2, 5))).toEqual({
      invalid_service_pids: [],
      n_redundant_additions: 1,
      n_added: 2,
      new_current_size: 5,
    });
    expect(await remove(sandbox, segment, [...pidsOf(4, 7), "nobody"])).toEqual({
      invalid_service_pids: ["nobody"],
      n_deleted: 1,
      new_current_size: 4,
    });
    expect(await add(sandbox, segment, [])).toMatchObject({ n_added: 0, new_current_size: 4 });
  });

  it("keeps first_added_at through removal and return, and moves last_added_at with every attempt", async () => {
    const sandbox = await sandboxFor();
    const segment = await create(sandbox);
    const [one = "", two = ""] = pidsOf(0, 2);
    await add(sandbox, segment, [one]);
    await add(sandbox, segment, [two]);
    const before = await pageOf(sandbox, segment);
    expect(before.items.map((item) => item.service_pid)).toEqual([two, one]);
    await control(sandbox, "/clock", { days: 3 });
    await remove(sandbox, segment, [one]);
    await add(sandbox, segment, [one, two]);
    expect((await pageOf(sandbox, segment)).items).toEqual(before.items);
    const truth: unknown = (await control(sandbox, `/segments/${segment}/members`))["members"];
    const isLater = Array.isArray(truth)
      ? truth.map((m) => Date.parse(m.last_added_at) - Date.parse(m.first_added_at) >= 3 * 86_400_000)
      : [];
    expect(isLater).toEqual([true, true]);
  });
});

describe("listing members", () => {
  it("pages by 5,000, newest first, with a flag for further pages", async () => {
    const sandbox = await sandboxFor();
    const segment = await create(sandbox);
    for (const from of [0, 2500, 5000, 7500]) await add(sandbox, segment, pidsOf(from, from + 2500));
    const pages = [await pageOf(sandbox, segment), await pageOf(sandbox, segment, 2)];
    expect(pages.map(({ items, ...rest }) => [items.length, rest])).toEqual([
      [5000, { total_count: 10_000, page: 1, list_continues: true }],
      [5000, { total_count: 10_000, page: 2, list_continues: false }],
    ]);
    const listed = pages.flatMap(({ items }) => items);
    expect(new Set(listed.map((item) => item.service_pid))).toEqual(new Set(pidsOf(0, 10_000)));
    const times = listed.map((item) => item.first_added_at);
    expect(times).toEqual(times.toSorted().toReversed());
    expect(times[0]).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
    expect(new Set(times).size).toBe(4);
    expect(new Set(listed.slice(0, 2500).map((item) => item.service_pid))).toEqual(
      new Set(pidsOf(7500, 10_000)),
    );
    expect(await pageOf(sandbox, segment, 3)).toEqual({
      items: [],
      total_count: 10_000,
      page: 3,
      list_continues: false,
    });
  });

  it("gives those of one moment another order whenever the segment changes, or with every request", async () => {
    const sandbox = await sandboxFor();
    const segment = await create(sandbox);
    await add(sandbox, segment, pidsOf(0, 100));
    const order = async () => (await pageOf(sandbox, segment)).items.map((item) => item.service_pid);
    const first = await order();
    expect(first).not.toEqual(pidsOf(0, 100));
    expect(await order()).toEqual(first);
    await remove(sandbox, segment, pidsOf(99, 100));
    const second = await order();
    expect(second).not.toEqual(first.filter((pid) => second.includes(pid)));
    await control(sandbox, "/page_hooks", { segment_id: segment, ties: "every_request" });
    expect(await order()).not.toEqual(await order());
  });
});

describe("the controls of segments", () => {
  it("create one of any size at once, in batches of one moment each", async () => {
    const sandbox = await sandboxFor();
    const made = await control(sandbox, "/segments", {
      segment_id: NOBODY,
      name: "large",
      members: 10_000,
      batch: 4000,
      at: "2026-03-01T12:00:00Z",
    });
    expect(made).toMatchObject({ segment_id: NOBODY, current_size: 10_000, ever_members: 10_000 });
    const { items } = await pageOf(sandbox, NOBODY);
    const times = items.map((item) => item.first_added_at);
    expect(new Set(times)).toEqual(new Set(["2026-03-01T12:00:00.000000Z", "2026-03-01T11:59:00.000000Z"]));
  });

  it("change members after the page that is named, before the next one", async () => {
    const sandbox = await sandboxFor();
    const segment = await create(sandbox);
    await add(sandbox, segment, pidsOf(0, 10));
    await control(sandbox, "/page_hooks", {
      segment_id: segment,
      after: [{ page: 2, add: pidsOf(10, 12), remove: pidsOf(0, 1) }],
    });
    const sizes: number[] = [];
    for (let i = 0; i < 4; i++) sizes.push((await pageOf(sandbox, segment)).total_count);
    expect(sizes).toEqual([10, 10, 11, 11]);
  });
});
