import { expect, test } from "vitest";
import { readCreated, readMemberPage } from "../../src/extract/pages.ts";
import { DriftLog } from "../../src/schemas/convert.ts";

const bytesOf = (body: object) => Buffer.from(JSON.stringify(body));

test("`last_added_at` of a member is reported, but not kept: each attempt to add a member changes it", () => {
  const drift = new DriftLog("GET /v2/segments/members");
  const times = ["2026-11-05T00:00:00.123456Z", "2026-11-05T00:00:00+00:00", 1_700_000_000, null];
  const items = times.map((time, i) => ({
    service_pid: `p-${i}`,
    first_added_at: "2026-11-01T00:00:00Z",
    last_added_at: time,
    ...(i === 3 ? { note: "new" } : {}),
  }));
  const results = { items, total_count: 4, page: 1, list_continues: false };
  const page = readMemberPage({ api_request_id: "r", results, warnings: [] }, 1, drift);
  expect(page?.members.map(({ extra }) => extra)).toEqual([null, null, null, '{"note":"new"}']);
  expect(drift.entries()).toMatchObject([
    { path: "last_added_at", kind: "unknown_field", occurrences: 4 },
    { path: "note", kind: "unknown_field", occurrences: 1 },
    { path: "response.warnings", kind: "unknown_field", occurrences: 1 },
  ]);
});

test.each([
  ["newest first", ["a 03", "b 02", "c 02", "d 01"], true],
  ["of members that are out of order", ["a 03", "b 01", "c 02"], false],
  ["of a member without a time", ["a 03", "b"], false],
  ["of a PID twice", ["a 03", "a 02"], false],
])("a page %s can prove absences: %j, %j", (_what, members, isSound) => {
  const items = members.map((member) => {
    const [name, day] = member.split(" ");
    return {
      service_pid: `p-${name}`,
      first_added_at: day === undefined ? null : `2026-11-${day}T00:00:00Z`,
    };
  });
  const results = { items, total_count: items.length, page: 1, list_continues: false };
  expect(readMemberPage({ results }, 1, new DriftLog(""))?.isSound).toBe(isSound);
});

test("the id of a created segment is kept in lower case, as configured ones are", () => {
  const drift = new DriftLog("POST /v2/segments/create");
  const id = "ABCDEF01-2345-4678-89AB-CDEF01234567";
  expect(readCreated(bytesOf({ segment_id: id }), drift)).toBe(id.toLowerCase());
  expect(readCreated(bytesOf({ results: { segment_id: id } }), drift)).toBe(id.toLowerCase());
});
