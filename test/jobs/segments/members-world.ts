import { expect } from "vitest";
import { dayOf } from "../../../packages/sandbox/src/population/calendar.ts";
import { createPeople } from "../../../packages/sandbox/src/population/people.ts";
import { membersAt } from "../../support/sandbox-control.ts";
import type { Compared } from "../usage/usage-truth.ts";
import { configOf, startWorld, type World } from "../world.ts";

/** Segment of these tests. */
export const SEGMENT = "11111111-1111-4111-8111-111111111111";
const PEOPLE = 20_000;

const config = configOf(`
  vip_members: { type: segment_members, segments: [{ id: ${SEGMENT}, name: VIP }] }`);

/** Creates a segment of several pages, with members in batches of one moment each. */
export async function startMembers(
  members: number,
  batch = 4000,
  options: { at?: string; membersPerPage?: number } = {},
): Promise<World> {
  const { at = "2026-10-01T00:00:00Z", ...sandbox } = options;
  const world = await startWorld({ rows: 0, seed: 7, people: PEOPLE, config, ...sandbox });
  await world.control("/segments", { segment_id: SEGMENT, name: "vip", members, batch, at });
  return world;
}

/** PIDs by number in the population; the first ones are the members of {@link startMembers}. */
export function pidsOf(from: number, to: number): readonly string[] {
  const people = createPeople(7, PEOPLE);
  const today = dayOf(Date.now());
  return Array.from({ length: to - from }, (_, i) => people.pidOf(from + i, today));
}

/** All present and former members at the service, in the order of their first addition. */
export const truthOf = ({ sandbox }: Compared) => membersAt(sandbox.url, SEGMENT);

/** Members in the warehouse and at the service, with the times of their addition. */
export async function readMembers(place: Compared) {
  const rows = await place.rows(
    `SELECT service_pid || ' ' || to_char(first_added_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS line
     FROM person_data.segment_member WHERE segment_id = '${SEGMENT}' AND is_member ORDER BY 1`,
  );
  const truth = (await truthOf(place)).filter(({ is_member }) => is_member);
  return {
    known: rows.map((row) => String(row["line"])).toSorted(),
    truth: truth.map((member) => `${member.service_pid} ${member.first_added_at}`).toSorted(),
  };
}

/** Expects the same members in the warehouse and at the service. */
export async function expectExact(world: World): Promise<void> {
  const { known, truth } = await readMembers(world);
  expect(known).toEqual(truth);
}

const overlaps = `SELECT count(*) FROM person_data.segment_membership_history AS a
  JOIN person_data.segment_membership_history AS b USING (segment_id, service_pid)
  WHERE a.valid_from < b.valid_from AND coalesce(a.valid_to, 'infinity') > b.valid_from`;
const open = `SELECT count(*) FROM person_data.segment_membership_history AS h
  FULL JOIN (SELECT segment_id, service_pid FROM person_data.segment_member WHERE is_member) AS m USING (segment_id, service_pid)
  WHERE h.valid_to IS NULL AND (h.valid_from IS NULL OR m.service_pid IS NULL)`;
/** Result of each pass. */
export const syncs = `SELECT current_size, known_members, added, removed, removals_pending
  FROM person_data_ops.segment_sync WHERE known_members IS NOT NULL ORDER BY _synced_at`;

/** Expects that no intervals overlap, and that only present members have an open one. */
export async function expectSoundHistory(world: World): Promise<void> {
  expect([await world.value(overlaps), await world.value(open)]).toEqual(["0", "0"]);
}
