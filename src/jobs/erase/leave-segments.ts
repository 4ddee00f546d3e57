import { recordCalls } from "../../load/ledger/ledger.ts";
import { randomUUID } from "node:crypto";
import { callFree } from "../../extract/free-call.ts";
import { changeCall } from "../../extract/segment-change.ts";
import { DriftLog } from "../../schemas/drift.ts";
import { segmentEndpoints } from "../../schemas/segments.ts";
import type { JobServices } from "../services.ts";
import type { Attempt } from "../../schemas/attempt.ts";

/** Job name of these calls in the ledger. */
const ASKER = "erase";

/** Services needed to leave segments. */
type LeaveServices = Pick<JobServices, "db" | "http" | "limiter" | "clock" | "log" | "signal" | "random">;

/** Result of leaving segments. */
export interface LeftSegments {
  /** Number of segments with a call. */
  readonly segments: number;
  /** Number of members removed. */
  readonly removed: number;
}

/** Membership of a person in a segment. */
interface Membership {
  readonly segmentId: string;
  readonly servicePid: string;
}

/**
 * Removes people from segments of the service. Free and idempotent: an erasure does this before and after its request, in
 * case a push added someone in between. A deleted segment counts as left.
 */
export async function leaveSegments(
  services: LeaveServices,
  known: readonly Membership[],
): Promise<LeftSegments> {
  const { db, log } = services;
  const { remove } = segmentEndpoints;
  const memberships = Map.groupBy(known, ({ segmentId }) => segmentId);
  const asker = { runId: randomUUID(), job: ASKER };
  let removed = 0;
  for (const [segmentId, members] of memberships) {
    const servicePids = members.map(({ servicePid }) => servicePid);
    const attempts: Attempt[] = [];
    const asked = callFree(
      { ...services, onAttempt: (attempt) => void attempts.push(attempt) },
      changeCall(remove, segmentId, servicePids, new DriftLog(remove.name)),
    );
    // Failed calls are also recorded in the ledger.
    await Promise.allSettled([asked]);
    await recordCalls(db, asker, attempts);
    const reply = await asked;
    if (reply.kind === "answer") removed += reply.value.changed ?? 0;
    log.info({ segment_id: segmentId, known: reply.kind === "answer" }, "segment_left");
  }
  return { segments: memberships.size, removed };
}
