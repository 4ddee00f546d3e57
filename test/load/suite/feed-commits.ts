import type { FeedCommit } from "../../support/bound-load.ts";
import type { SeenMember } from "../../../src/load/feeds/members.ts";
import type { RunRef } from "../../../src/load/runs/run-ref.ts";

/** Segment of the tests. */
export const SEGMENT = "11111111-1111-4111-8111-111111111111";

/** Start of a day in November. */
export const DAY = (day: number): string => `2026-11-0${day}T00:00:00Z`;

/** A member as listed on a page. */
export const member = (servicePid: string, day: number | null, seenDay = 5): SeenMember => ({
  servicePid,
  firstAddedAt: day === null ? null : DAY(day),
  seenAt: DAY(seenDay),
  extra: null,
});

/** A commit of a feed. */
export function feedCommit(run: RunRef, more: Partial<FeedCommit> = {}): FeedCommit {
  return { run, ...more };
}
